"""The extension of most tests of the SDK: two tools, a stream and progress.

`sample.py --dialect D` speaks the dialect (protocol) D. `programs.py` starts it as SAMPLE.
"""

from collections.abc import Iterator

from exthost.sdk import Context, Extension

ext = Extension("sample", version="1.2.3", description="Adds and counts")


@ext.tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


@ext.tool
def work(steps: int, ctx: Context) -> str:
    """Report progress, then be done."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
    ctx.log("worked", "warning")
    return "done"


@ext.stream
def count(to: int) -> Iterator[int]:
    """Count."""
    yield from range(1, to + 1)


if __name__ == "__main__":
    ext.run()
