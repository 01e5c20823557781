"""Names that go from one policy to another while connections know them: each request meets what it has to, once."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from admc.transition.model import Placed
from dsl import load_text
from solver.place import place
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.ports import free_port
from tests.transition.bed import Bed
from tests.transition.callers import Keeper, answered, more
from tests.transition.move import AMOUNT, PORT, phases

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from admc.testbed.echo import Seen

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

HEAD = f"""
app names
service shop, till, cart {{ http {PORT} }}
call shop, till -> cart
"""
FOOT = """\
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
"""
POLICIES = {
    "once": ("egress", 'add_request_header(name: "x-once", value: "1")', ""),
    "other": ("egress", 'add_request_header(name: "x-other", value: "1")', ""),
    "closed": ("egress", "deny()", ' when header("x-out") == "1"'),
    "barred": ("egress", "deny()", ' when header("x-barred") == "1"'),
    "tier 1": ("egress", 'add_request_header(name: "x-tier", value: "1")', ""),
    "tier 2": ("egress", 'add_request_header(name: "x-tier", value: "2")', ""),
    "last": ("ingress", 'add_request_header(name: "x-last", value: "1")', ""),
}
FIRST = {"a": "once", "g": "closed", "c": "tier 1", "z": "last"}
"""What each name is of, in one plan after the other."""
SWAPPED = {"a": "other", "b": "once", "g": "barred", "h": "closed", "z": "last"}
BACK = {**SWAPPED, "c": "tier 2"}


def text(named: dict[str, str]) -> str:
    lines = []
    for name, what in named.items():
        side, kind, match = POLICIES[what]
        lines.append(f"policy {name} = {kind} on {{shop, till}} -> cart{match}\npin {name} at {side}\n")
    return HEAD + "".join(lines) + FOOT


def changes(seen: Iterable[Seen], header: str) -> list[tuple[str, ...]]:
    """The values that a header has had, one after the other."""
    return [value for value, _ in groupby(each.header(header) for each in seen)]


def test_names_are_swapped_and_come_back_before_connections_are_closed_that_know_them(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text(FIRST))
    loaded = load_text(text(FIRST))
    port = free_port()
    options = ("policies.adm", "--mode", "explicit")
    assert ENVOY is not None
    with ExitStack() as stack:
        server = stack.enter_context(served(tmp_path, *options, xds=f"127.0.0.1:{port}"))
        bed = stack.enter_context(Bed(Placed(loaded, place(loaded)), tmp_path, ENVOY, port))
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        fresh = {"connection": "close"}
        kept, new = [Keeper(shop, {}), Keeper(till, {})], [Keeper(shop, fresh), Keeper(till, fresh)]
        refused = [Keeper(shop, {"x-out": "1"}), Keeper(till, {"x-out": "1", **fresh})]
        callers = [*kept, *new, *refused]
        with ExitStack() as calling:
            for caller in callers:
                calling.enter_context(caller)
            more(callers, AMOUNT)
            write(program, text(SWAPPED))
            server.until(lambda: phases(server) == ["final"])
            more(callers, AMOUNT)
            write(program, text(BACK))
            server.until(lambda: phases(server)[:2] == ["final", "final"])
            assert not server.events("transition_over")
            more(callers, AMOUNT)
            server.until_event("transition_over")
            more(callers, AMOUNT)
        # The swap, the name that comes back, and the walk to policies' own names.
        assert phases(server) == ["final", "final", "clean", "final", "clean"]
        said = " ".join(event.get("reason", "") for event in server.events("transition"))
        assert all(f"`{name}` is called `{name}~2`" in said for name in "agc")
        passed = answered([*kept, *new], 200)
        answered(refused, 403)
        seen = {each.header("x-echo-id")[0]: each for each in bed.services.record.all()}
        assert seen.keys() == set(passed)
        assert len(bed.services.record.all()) == len(passed)
        assert {each.header(name) for each in seen.values() for name in ("x-once", "x-last")} == {("1",)}
        for caller in (*kept, *new):
            own = [seen[name] for name, _, _ in caller.answers]
            assert changes(own, "x-other") == [(), ("1",)]
            # A connection that is kept has what it had until it is closed: then it may have missed what was between.
            assert changes(own, "x-tier") in ([("1",), (), ("2",)], [("1",), ("2",)][: 2 if caller in kept else 0])
            assert caller.connections >= (2 if caller in kept else len(own))
