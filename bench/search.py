"""How well a search finds the right tool: `python -m bench search`.

The tools are those of real MCP servers, and the questions were written by hand; both are in
`tests/data/tool_search`. A question counts if one of its right tools is among the first eight.
"""

import json
from pathlib import Path
from typing import NamedTuple

from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.names import prefixed_description, registered_name
from exthost.model.offer import RegisteredTool

DATA = Path(__file__).parents[1] / "tests" / "data" / "tool_search"
LIMIT = 8


class Question(NamedTuple):
    """A question, and the registered names of the tools that answer it."""

    text: str
    answers: frozenset[str]


def read_tools() -> RegisteredTools:
    """Return the tools of the data set, as a host would list them."""
    rows = json.loads((DATA / "tools.json").read_text(encoding="utf-8"))
    tools = [
        RegisteredTool(
            name=registered_name(row["extension"], row["name"]),
            description=prefixed_description(row["extension"], row["description"]),
            input_schema=row["input_schema"],
            extra={"annotations": row["annotations"]} if "annotations" in row else {},
            tool=row["name"],
            extension=row["extension"],
            provider=row["server"],
        )
        for row in rows
    ]
    return RegisteredTools({tool.name: tool for tool in tools})


def read_questions() -> list[Question]:
    """Return the questions of the data set."""
    lines = (DATA / "questions.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [
        Question(text, frozenset(registered_name(*name.split(":")) for name in names.split()))
        for text, names in pairs
    ]


def find_missed(tools: RegisteredTools, questions: list[Question]) -> list[Question]:
    """Return the questions of which no right tool is among the first."""
    return [one for one in questions if one.answers.isdisjoint(tools.search(one.text, LIMIT))]


def main() -> int:
    """Print the recall, and how much a model reads with a list and with a search."""
    tools, questions = read_tools(), read_questions()
    missed = find_missed(tools, questions)
    recall = 1 - len(missed) / len(questions)
    listed = len(json.dumps(tools.as_mcp()))
    sizes = [len(json.dumps(tools.search(one.text, LIMIT).as_mcp())) for one in questions]
    print(f"tools                        {len(tools)}")
    print(f"questions                    {len(questions)}")
    print(f"recall at {LIMIT}                  {recall:.3f}")
    print(f"list of all tools            {listed:,} characters")
    print(f"result of a search, average  {sum(sizes) // len(sizes):,} characters")
    for one in missed:
        print(f"missed: {one.text}")
    return 0 if recall >= 0.9 else 1
