"""An agent with tools, on the messages API of Anthropic.

ANTHROPIC_API_KEY=… python3 anthropic_agent.py "Shout hello"
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
URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
MODEL = os.environ.get("MODEL", "claude-sonnet-4-5")


def ask(messages: list[Any], tools: list[Any]) -> Any:
    """Send one request to the model, and return its response."""
    request = {"model": MODEL, "max_tokens": 1024, "messages": messages, "tools": tools}
    headers = {
        "Content-Type": "application/json",
        "x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""),
        "anthropic-version": "2023-06-01",
    }
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(URL, body, headers)) as response:
        return json.load(response)


async def run(question: str) -> str:
    """Return the model's answer, after the tool calls that it asks for."""
    async with exthost.Host.from_config(CONFIG) as host:
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            response = await asyncio.to_thread(ask, messages, host.tools.as_anthropic())
            answers = await host.run_calls(response)
            if not answers:
                texts = [block["text"] for block in response["content"] if "text" in block]
                return "".join(texts)
            messages += [{"role": "assistant", "content": response["content"]}, *answers]


if __name__ == "__main__":
    print(asyncio.run(run(" ".join(sys.argv[1:]))))
