"""Policies swap their names, through a real server and real Envoys, and connections are older than the change.

Nothing moves, so each plan is published at once. A filter is named by its policy and by a digest of its chain, so that
older connections keep the filters that they know by the same names.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pytest

from admc.serve.rollout.model import Placed
from admc.testbed.envoys import envoy_binary
from dsl import load_text
from solver.place import place
from tests.serve.rollout import envoy_bed
from tests.serve.rollout.move import phases
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.callers import caller, names_with_status, wait_for_answers, wait_for_workers
from tests.testbed.ports import free_port, program_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from admc.testbed.echo import Seen

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="needs Envoy")]

PORT: Final = program_port()
AMOUNT: Final = 15
"""Requests of each caller with each plan."""
HEAD: Final = f"""
app names
service shop, till, cart {{ http {PORT} }}
call shop, till -> cart
"""
FOOT: Final = """\
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
"""
POLICIES: Final = {
    "once": ("egress", 'add_request_header(name: "x-once", value: "1")', ""),
    "other": ("egress", 'add_request_header(name: "x-other", value: "1")', ""),
    "closed": ("egress", "deny()", ' when header("x-out") == "1"'),
    "barred": ("egress", "deny()", ' when header("x-barred") == "1"'),
    "tier 1": ("egress", 'add_request_header(name: "x-tier", value: "1")', ""),
    "tier 2": ("egress", 'add_request_header(name: "x-tier", value: "2")', ""),
    "last": ("ingress", 'add_request_header(name: "x-last", value: "1")', ""),
}
FIRST: Final = {"a": "once", "g": "closed", "c": "tier 1", "z": "last"}
"""What each name stands for, in one plan after the other."""
SWAPPED: Final = {"a": "other", "b": "once", "g": "barred", "h": "closed", "z": "last"}
RETURNED: Final = {**SWAPPED, "c": "tier 2"}


def text(named: Mapping[str, str]) -> str:
    lines = []
    for name, policy in named.items():
        side, kind, match = POLICIES[policy]
        lines.append(f"policy {name} = {kind} on {{shop, till}} -> cart{match}\npin {name} at {side}\n")
    return HEAD + "".join(lines) + FOOT


def changes(seen: Iterable[Seen], header: str) -> list[tuple[str, ...]]:
    """The values that a header has had, one after the other."""
    return [value for value, _ in groupby(each.header(header) for each in seen)]


def test_names_are_swapped_and_return_while_older_connections_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    monkeypatch.setattr(envoy_bed, "DRAIN_SECONDS", 600)
    program = tmp_path / "policies.adm"
    program.write_text(text(FIRST))
    loaded = load_text(text(FIRST))
    port = free_port()
    assert ENVOY is not None
    with ExitStack() as stack:
        server = stack.enter_context(served(tmp_path, program.name, "--mode", "explicit", xds=f"127.0.0.1:{port}"))
        bed = stack.enter_context(envoy_bed.Bed(Placed(loaded, place(loaded)), tmp_path, ENVOY, port))
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        kept, fresh = [caller(shop, {}), caller(till, {})], [caller(each, {}, keep=False) for each in (shop, till)]
        refused = [caller(shop, {"x-out": "1"}), caller(till, {"x-out": "1"}, keep=False)]
        callers = [*kept, *fresh, *refused]
        with ExitStack() as calling:
            for each in callers:
                calling.enter_context(each)
            wait_for_answers(callers, AMOUNT)
            for number, named in enumerate((SWAPPED, RETURNED), 1):
                write(program, text(named))
                server.until(lambda it=number: phases(server) == it * ["plan"])  # type: ignore[misc]
                server.until(lambda: all(adm["in_sync"] for adm in server.status()["adms"]))
                wait_for_workers(callers)
                wait_for_answers(callers, AMOUNT)
        passed = names_with_status([*kept, *fresh], 200)
        names_with_status(refused, 403)
        arrived = {each.header("x-echo-id")[0]: each for each in bed.services.record.all()}
        assert arrived.keys() == set(passed)
        assert len(bed.services.record.all()) == len(passed)
    assert {each.header(name) for each in arrived.values() for name in ("x-once", "x-last")} == {("1",)}
    for each in (*kept, *fresh):
        own = [arrived[request.name] for request in each.answered]
        assert changes(own, "x-other") == ([()] if each in kept else [(), ("1",)])
        assert changes(own, "x-tier") == ([("1",)] if each in kept else [("1",), (), ("2",)])
        assert (each.connections == 1) is (each in kept)
