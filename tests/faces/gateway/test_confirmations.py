"""A rule can require that a person agrees to a call: `{ tools = "…", do = "ask" }`.

The gateway (an MCP server in front of the extensions) then sends the question to the client that
made the call, as an elicitation of MCP, and runs the call only if the answer is yes. Each test runs
the gateway in this process, with one extension `e`, whose tool `echo` has such a rule.

MCP has two eras. In the older one, with a handshake, the server sends the question as a request. In
the stateless one, the reply to the call is the question with a state, and the client sends the
call again with the answer and that state.
"""

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from exthost.events import CallEnded, RuleApplied
from exthost.host import ruled_calls
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, open_gateway

MCP = str(ROOT / "tests" / "extensions" / "mcp_child.py")
RULE = {"tools": "ext_e_echo", "do": "ask", "reason": "look first"}  # the reason is shown
# In these tests, `cache=None` switches off the cache of the client library for responses.
in_both_eras = pytest.mark.parametrize("era", ERAS)
of_both_kinds = pytest.mark.parametrize("dialect", ["nexo", "mcp"])


def document(dialect: str = "nexo", **more: Any) -> dict[str, Any]:
    """Return a config with the extension `e` in this dialect (protocol), and the rule."""
    child = MCP if dialect == "mcp" else str(NEXO)
    return {"extensions": [extension("e", dialect, "-S", "-E", child)], "rules": [RULE], **more}


def text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


def answering(questions: list[str], *answers: types.ElicitResult) -> Any:
    """Return a client's callback for questions: it adds each question to the list, and gives the
    next of the answers."""
    remaining = list(answers)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return remaining.pop(0)

    return answer


YES = types.ElicitResult(action="accept", content={"agree": True})
NOES = (
    types.ElicitResult(action="accept", content={"agree": False}),
    types.ElicitResult(action="decline"),
    types.ElicitResult(action="cancel"),
)


@in_both_eras
@of_both_kinds
async def test_the_client_of_a_call_is_asked(era: str, dialect: str) -> None:
    questions: list[str] = []
    callback = answering(questions, YES, *NOES)
    async with (
        open_gateway(document(dialect)) as gateway,
        Client(gateway.server, mode=ERAS[era], cache=None, elicitation_callback=callback) as client,
    ):
        result = await client.call_tool("ext_e_echo", {"a": "one"})
        assert json.loads(text(result)) == {"a": "one"} and not result.is_error
        for part in ("ext_e_echo", '{"a":"one"}', "look first"):
            assert part in questions[0]
        for _ in NOES:
            refused = await client.call_tool("ext_e_echo", {"a": "one"})
            assert refused.is_error and "X1842" in text(refused)
    assert len(questions) == 4


@in_both_eras
async def test_a_call_of_a_client_that_cannot_ask_is_refused(era: str) -> None:
    async with (
        open_gateway(document()) as gateway,
        Client(gateway.server, mode=ERAS[era], cache=None) as client,
    ):
        refused = await client.call_tool("ext_e_echo", {"a": "one"})
        assert refused.is_error and "there is no person to ask" in text(refused)


@in_both_eras
async def test_in_search_mode_the_question_is_about_the_inner_tool(era: str) -> None:
    # In search mode the gateway lists few tools; its tool `call_tool` calls the others.
    questions: list[str] = []
    async with (
        open_gateway(document(gateway={"mode": "search"})) as gateway,
        Client(
            gateway.server,
            mode=ERAS[era],
            cache=None,
            elicitation_callback=answering(questions, YES),
        ) as client,
    ):
        arguments = {"name": "ext_e_echo", "arguments": {"a": "one"}}
        result = await client.call_tool("call_tool", arguments)
        assert json.loads(text(result)) == {"a": "one"}
    assert "tool: ext_e_echo" in questions[0]


async def test_clients_are_asked_about_their_own_calls_only() -> None:
    first_questions, second_questions = [], []  # type: list[str], list[str]
    async with (
        open_gateway(document()) as gateway,
        Client(
            gateway.server,
            mode="legacy",
            cache=None,
            elicitation_callback=answering(first_questions, YES),
        ) as one,
        Client(
            gateway.server,
            mode="legacy",
            cache=None,
            elicitation_callback=answering(second_questions, NOES[1]),
        ) as other,
    ):
        results = await asyncio.gather(
            one.call_tool("ext_e_echo", {"a": "first"}),
            other.call_tool("ext_e_echo", {"a": "second"}),
        )
    assert [result.is_error for result in results] == [False, True]
    assert "first" in first_questions[0] and "second" in second_questions[0]


# -- answers of the stateless era ----------------------------------------------------------------

# A yes to the question with the id 1, which is the only one of a call.
AGREED: types.InputResponses = {"1": YES}


def stateless_client(gateway: Any, name: str) -> Client:
    """Return a client of the stateless era with this name. It must not answer by itself."""
    client_info = types.Implementation(name=name, version="1")
    callback = answering([])
    return Client(
        gateway.server,
        mode="auto",
        cache=None,
        client_info=client_info,
        elicitation_callback=callback,
    )


async def ask_for(client: Client, **arguments: Any) -> str:
    """Call the tool; the reply is a question. Return its state, which the answer must contain."""
    response = await client.session.call_tool("ext_e_echo", arguments, allow_input_required=True)
    assert isinstance(response, types.InputRequiredResult) and response.request_state
    return response.request_state


async def answer(client: Client, state: str, **arguments: Any) -> types.CallToolResult:
    """Repeat the call with a yes to its question; return the result."""
    result = await client.session.call_tool(
        "ext_e_echo", arguments, input_responses=AGREED, request_state=state
    )
    assert isinstance(result, types.CallToolResult)
    return result


async def test_an_answer_counts_once() -> None:
    ended: list[CallEnded] = []
    async with open_gateway(document()) as gateway, stateless_client(gateway, "one") as client:
        gateway.host.events.subscribe(CallEnded, ended.append)
        state = await ask_for(client, a="one")
        assert json.loads(text(await answer(client, state, a="one"))) == {"a": "one"}
        with pytest.raises(MCPError, match="unknown or expired"):
            await answer(client, state, a="one")
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("name", "arguments"), [("other", {"a": "one"}), ("one", {"a": "two"}), ("one", {})]
)
async def test_an_answer_of_another_client_or_for_other_arguments_does_not_count(
    name: str, arguments: dict[str, Any]
) -> None:
    ended: list[CallEnded] = []
    async with (
        open_gateway(document()) as gateway,
        stateless_client(gateway, "one") as client,
        stateless_client(gateway, name) as other,
    ):
        gateway.host.events.subscribe(CallEnded, ended.append)
        state = await ask_for(client, a="one")
        with pytest.raises(MCPError, match="belongs to another request"):
            await answer(other, state, **arguments)
        # The attempt has ended the question, so its own client cannot answer it any more either.
        with pytest.raises(MCPError, match="unknown or expired"):
            await answer(client, state, a="one")
    assert ended == []


async def test_a_question_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: asyncio.Queue[RuleApplied] = asyncio.Queue()
    monkeypatch.setattr(ruled_calls, "ANSWER_SECONDS", 0.05)
    async with open_gateway(document()) as gateway, stateless_client(gateway, "one") as client:
        gateway.host.events.subscribe(RuleApplied, applied.put_nowait)
        state = await ask_for(client, a="one")
        assert (await applied.get()).outcome == "unanswered"
        refused = await answer(client, state, a="one")
    assert refused.is_error and "no answer arrived within" in text(refused)
