"""`minimize latency` is a sum over calls: the placement that it chooses may delay a request more than another one.

`front` asks `left` and `right` at once. `left` takes 10 ms by itself and `right` 1 ms, so what delays `right` delays no
request. The program is that of docs/profiles.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from admc.compile.pipeline import Compiled, compile_program, overhead_of
from tests.cli.command import ROOT
from tests.cost.documents import changed, law

WORK = {"left": 10_000_000, "right": 1_000_000}
"""Nanoseconds that a service takes by itself, beside its call to `store`."""


def flat(document: Any) -> None:
    """A hop adds 100 us at every rate; `request_count` adds 4 us at ingress, and 300 us at egress."""
    user, kernel = document["hops"][0]["parts"]
    user["latency"], kernel["latency"] = law((5.0, 100.0)), law((5.0, 0.0))
    for component in document["components"]:
        if component["component"] == "request_count":
            component["latency"] = law((5.0, 300.0 if component["side"] == "egress" else 4.0))


def program() -> str:
    """The example of the page."""
    page = (ROOT / "docs" / "profiles.md").read_text()
    (found,) = (text for text in re.findall(r"```adm\n(.*?)```", page, re.DOTALL) if "right -> store" in text)
    return str(found)


def compiled(folder: Path, line: str = "") -> Compiled:
    (folder / "node.json").write_text(changed(flat))
    path = folder / "policies.adm"
    path.write_text(program() + line)
    return compile_program(path)


def added(of: Compiled, folder: Path) -> Mapping[str, int]:
    """Nanoseconds that ADMs add to the call of `left`, and to that of `right`."""
    report = overhead_of(of.program, of.placement, str(folder))
    assert report is not None
    found = dict.fromkeys(WORK, 0)
    for adm in report.overhead.adms:
        for each in (each for hop in adm.hops for each in hop.calls):
            assert each.latency is not None
            found[of.program.calls[each.call].source] += each.latency.value
    return found


def delayed(latencies: Mapping[str, int]) -> int:
    """By how much the longest path is longer with the mesh."""
    return max(WORK[name] + latencies[name] for name in WORK) - max(WORK.values())


def test_the_smallest_sum_is_not_the_shortest_path(tmp_path: Path) -> None:
    chosen = compiled(tmp_path)
    assert [adm.service for adm in chosen.placement.adms] == ["store"]
    by_sum = added(chosen, tmp_path)
    assert by_sum == {"left": 100_000, "right": 104_000}
    other = added(compiled(tmp_path, "pin count at egress\n"), tmp_path)
    assert other == {"left": 0, "right": 400_000}
    assert sum(by_sum.values()) < sum(other.values())
    assert (delayed(by_sum), delayed(other)) == (100_000, 0)


@pytest.mark.parametrize("line", ["", "pin count at egress\n"])
def test_the_level_is_the_sum_over_calls(tmp_path: Path, line: str) -> None:
    of = compiled(tmp_path, line)
    level = next(each for each in of.placement.objectives if each.metric == "latency")
    assert level.value == 20 * sum(added(of, tmp_path).values())
