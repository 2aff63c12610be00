"""The packages of OpenAI, Anthropic and Google work with exthost: their types accept the lists of
tools that a host returns, and `Host.run_calls` understands their responses and streams.

The programs run in an environment with these packages, with a fake model.
"""

import json
from pathlib import Path

import pytest

from tests.integrations.environments import agent_folder, call, environment_python, run_program

pytestmark = pytest.mark.more

# The fake model calls the tools that the question names.
QUESTION = "\n".join(
    [
        call("ext_text_shout", text="hello"),
        call("ext_painter_paint", text="red"),
        call("ext_painter_fail"),
        call("ext_remark_remark", text="so"),
    ]
)
ENVIRONMENT = "model-apis"

# For each API: requests a stream, which `run_calls` refuses while it was not read, and prints the
# answers that `run_calls` returns for the list of its chunks.
STREAMS = """\
import asyncio
import json
import sys

import anthropic
import exthost
import openai
from google import genai


async def main(question):
    user = [{"role": "user", "content": question}]
    async with exthost.Host.from_config("exthost.toml") as host:
        tools = host.tools
        client = openai.AsyncOpenAI()
        chat = await client.chat.completions.create(
            model="m", messages=user, tools=tools.as_openai(), stream=True
        )
        responses = await client.responses.create(
            model="m", input=question, tools=tools.as_openai("responses"), stream=True
        )
        messages = await anthropic.AsyncAnthropic().messages.create(
            model="m", max_tokens=9, messages=user, tools=tools.as_anthropic(), stream=True
        )
        google = genai.Client()
        gemini = await google.aio.models.generate_content_stream(
            model="m", contents=question, config={"tools": tools.as_gemini()}
        )
        for stream in (chat, responses, messages, gemini):
            try:
                await host.run_calls(stream)
            except exthost.errors.UsageError as error:
                assert "was not read" in error.message, error
            else:
                raise AssertionError("a stream that was not read was accepted")
            chunks = [chunk async for chunk in stream]
            print(json.dumps(await host.run_calls(chunks)))


asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "program", ["chat_agent", "responses_agent", "anthropic_agent", "gemini_agent"]
)
def test_an_agent_of_each_package_works_as_its_how_to_says(program: str, tmp_path: Path) -> None:
    python = environment_python(ENVIRONMENT)
    folder = agent_folder("model-apis", tmp_path)
    answer = run_program(python, folder, f"{program}.py", QUESTION)
    for part in ("HELLO", "painted red", "the brush is dry", "fine: so", "images: 1"):
        assert part in answer, answer
    crashed = run_program(python, folder, f"{program}.py", call("ext_painter_crash"))
    assert "it ended during crash" in crashed


def test_the_chunks_of_each_stream_are_understood(tmp_path: Path) -> None:
    python = environment_python(ENVIRONMENT)
    folder = agent_folder("model-apis", tmp_path)
    (folder / "streams.py").write_text(STREAMS)
    printed = run_program(python, folder, "streams.py", call("ext_text_shout", text="hi"))
    chat, responses, anthropic, gemini = map(json.loads, printed.splitlines())
    assert chat[0]["tool_call_id"] == responses[0]["call_id"] == "call_0"
    assert anthropic[0]["content"][0]["tool_use_id"] == "toolu_0"
    assert gemini[0]["parts"][0]["functionResponse"]["name"] == "ext_text_shout"
    for answers in (chat, responses, anthropic, gemini):
        assert "HI" in json.dumps(answers)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_strictly_typed_agent_needs_no_cast(checker: str, tmp_path: Path) -> None:
    python = environment_python(ENVIRONMENT)
    folder = agent_folder("model-apis", tmp_path)
    programs = sorted(path.name for path in folder.glob("*_agent.py"))
    assert len(programs) == 4
    assert not any("cast" in (folder / name).read_text() for name in programs)
    assert not any("type: ignore" in (folder / name).read_text() for name in programs)
    if checker == "mypy":
        options = ["--strict", "--config-file=", f"--cache-dir={folder / 'cache'}"]
    else:
        # The types of Google's package are themselves incomplete.
        strict = [name for name in programs if name != "gemini_agent.py"]
        settings = {"include": programs, "strict": strict}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        options, programs = ["--pythonpath", python, "--project", str(folder)], []
    run_program(python, folder, "-m", checker, *options, *programs)
