"""A small application whose policies change sides, the steps that they take, and what must have become of requests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from admc.transition.marker import MARKER
from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load, load_text
from solver.place import place
from tests.testbed.envoys import envoy_binary
from tests.testbed.ports import program_port
from tests.transition.bed import Bed
from tests.transition.callers import Keeper, answered, more

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.serve.serving import Served
    from tests.testbed.echo import Seen

PORT: Final = program_port()
KEY: Final = b"a key of the server"
AMOUNT: Final = 15
"""Requests in each step."""
SIDES = pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])

PROGRAM: Final = """
app move
service shop { http PORT }
service till { http PORT }
service cart { http PORT }
call shop, till -> cart
policy once    = add_request_header(name: "x-once", value: "1") on {shop, till} -> cart
policy closed  = deny() on {shop, till} -> cart when header("x-out") == "1"
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
pin once at SIDE
pin closed at SIDE
"""


def text(side: str) -> str:
    return PROGRAM.replace("SIDE", side).replace("PORT", str(PORT))


def placed(side: str) -> Placed:
    program = load_text(text(side))
    return Placed(program, place(program))


HEAD = """
app move
service shop { http PORT }
service till { http PORT }
service cart { http PORT  tcp raw RAW }
service spare { http PORT }
call shop -> cart:PORT, cart:raw, spare
call till -> cart:PORT, cart:raw
policy spread  = load_balancing(policy: random) on {shop, till} -> cart:raw
"""
FOOT = """
policy breaker_web = circuit_breaking(max_connections: 1000) on {shop, till} -> cart:web
policy breaker_raw = circuit_breaking(max_connections: 1000) on {shop, till} -> cart:raw
"""
"""Without redirection listeners have to be there before what moves to them: they are instead of the service's own."""


def ends(text: str, sides: tuple[str, str], folder: Path) -> tuple[Placed, Placed]:
    """Both programs; `SIDE` and `OTHER` are where something is pinned in each, `NOW` is the number of the program."""
    found = []
    for number, side in enumerate(sides):
        other = {"ingress": "egress", "egress": "ingress"}[side]
        replaced = {"PORT": str(PORT), "RAW": str(PORT + 1), "SIDE": side, "OTHER": other, "NOW": str(number)}
        written = HEAD.replace("cart:PORT", "cart:web").replace("http PORT  tcp", "http web PORT  tcp") + text + FOOT
        for word, value in replaced.items():
            written = written.replace(word, value)
        path = folder / f"{number}.adm"
        path.write_text(written)
        program = load(path)
        found.append(Placed(program, place(program)))
    return found[0], found[1]


def walk(bed: Bed, ends: tuple[Placed, Placed], callers: Sequence[Keeper]) -> None:
    """Take all steps, each for some requests of every caller."""
    for step in steps(*ends, KEY):
        bed.publish(step)
        more(callers, AMOUNT)


def moved(
    both: tuple[Placed, Placed], folder: Path, *headers: Mapping[str, str]
) -> tuple[list[Keeper], tuple[Seen, ...]]:
    """What comes of a walk: a caller of `cart` at `shop` for each set of headers, and what arrived anywhere."""
    envoy = envoy_binary()
    assert envoy is not None
    with Bed(both[0], folder, envoy) as bed:
        with ExitStack() as stack:
            dial = bed.egress("shop", "cart")
            callers = [stack.enter_context(Keeper(dial, each)) for each in headers]
            walk(bed, both, callers)
        return callers, tuple(bed.services.record.all())


def once(bed: Bed, passed: Sequence[Keeper], refused: Sequence[Keeper]) -> None:
    """Every request that may pass did and met the policy `once` once, no other arrived, and none with the marker."""
    names = answered(passed, 200)
    answered(refused, 403)
    seen = bed.services.record.all()
    assert len(seen) == len(names)
    assert {each.header("x-once") for each in seen} == {("1",)}
    assert not any(each.header(MARKER) for each in seen)


def phases(server: Served) -> list[str]:
    """The steps that a server has taken, by its log."""
    return [event["phase"] for event in server.events("transition_step")]
