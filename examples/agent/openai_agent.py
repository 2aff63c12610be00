"""An agent with tools, on the chat-completions API of OpenAI and of those that are like it.

OPENAI_API_KEY=… python3 openai_agent.py "Shout hello"
"""

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

import exthost

CONFIG = Path(__file__).with_name("exthost.toml")
URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
MODEL = os.environ.get("MODEL", "gpt-5-mini")


def ask(messages: list[Any], tools: list[Any]) -> Any:
    """Send one request to the model, and return its response."""
    body = json.dumps({"model": MODEL, "messages": messages, "tools": tools}).encode()
    key = os.environ.get("OPENAI_API_KEY", "")
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with urllib.request.urlopen(urllib.request.Request(URL, body, headers)) as response:
        return json.load(response)


async def run(question: str) -> str:
    """Return the model's answer, after the tool calls that it asks for."""
    async with exthost.Host.from_config(CONFIG) as host:
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            response = await asyncio.to_thread(ask, messages, host.tools.as_openai())
            answers = await host.run_calls(response)
            message = response["choices"][0]["message"]
            if not answers:
                return str(message["content"])
            messages += [message, *answers]


if __name__ == "__main__":
    print(asyncio.run(run(" ".join(sys.argv[1:]))))
