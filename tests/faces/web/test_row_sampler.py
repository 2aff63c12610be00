"""Tests of `RowSampler`, from which a web page gets the rows of its list of extensions: all rows
first, and then only those that have changed."""

import sys
from contextlib import aclosing

from exthost.faces.web.history import History
from exthost.faces.web.row_sampler import RowSampler
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from tests.extensions.morphir_program import morphir_program


async def test_the_first_update_has_all_rows_and_the_next_only_changed_ones() -> None:
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", morphir_program()]}
    entries = [{"name": name, "source": source, "start": "lazy"} for name in ("a", "b")]
    async with Host.from_config({"extensions": entries}) as host:
        history = History(host)  # counts the calls, for the rates in the rows
        sampler = RowSampler(host, StatusReport(host), history)
        async with aclosing(sampler.follow()) as updates:
            first = await anext(updates)
            assert [row["id"] for row in first["rows"]] == first["order"] == ["a", "b"]
            await host["b"].call("find")  # starts `b`, whose row then has another state
            second = await anext(updates)
            assert [row["id"] for row in second["rows"]] == ["b"]
            assert second["order"] is None  # only the first update has it
        await sampler.close()
        history.close()
