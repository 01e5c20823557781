"""Who a caller is follows from addresses, and each of two plans has its own way to tell: services inside of outside
parties' networks, networks inside of others, and parties that only one of the two knows.

Whoever is refused by both plans is refused in every step between them, and who is refused by neither is in none.
"""

from __future__ import annotations

import ipaddress
import json
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from admc.serve.rollout.stepping import where
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from admc.serve.build.source import Source, State
from admc.transition.change import Change
from admc.transition.model import Part, Placed, Toggle
from admc.transition.older import names, renamed
from admc.transition.steps import steps
from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Side
from emitters.addresses import Addresses, from_json
from emitters.addresses.index import AddressIndex, Callers
from emitters.envoy import emit
from emitters.envoy.chains.tcp import chains
from emitters.envoy.context import Context, Mode
from emitters.envoy.hop_addresses import taken
from emitters.envoy.matching.callers import callers_in_scope
from emitters.errors import EmitError
from emitters.hops import hops
from solver.place import place
from solver.placement import PlacementError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emitters.hops import Hop

pytestmark = pytest.mark.long

PODS: Final = {"s": "10.1.0.1", "t": "10.1.1.1", "n": "10.1.1.2", "d": "10.9.0.1"}
PEERS: Final = (*PODS.values(), "10.1.0.9", "10.1.1.9", "10.2.0.1", "192.0.2.1")
NETWORKS: Final = ("10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "192.0.2.0/24", "")
"""One inside of the other; the last is for who is known by no address."""

HEAD: Final = """
app outsiders
service s, t { http 80 }
service d { http web 80  tcp raw 81 }
call s, t -> d:web, d:raw
"""
MOVES: Final = "policy m = request_count() on s -> d:web\npin m at SIDE\n"


class End:
    """A program, and where its parties are."""

    def __init__(self, text: str, listed: Mapping[str, str]) -> None:
        program = load_text(text)
        self.placed = Placed(program, place(program))
        services = {name: {"pods": [address]} for name, address in listed.items() if name in program.services}
        self.addresses = from_json(json.dumps({"services": services}).encode(), program)
        emit(program, self.placed.placement, self.addresses, Mode.REDIRECT, waiting=True)


@st.composite
def texts(draw: st.DrawFn, side: str) -> str:
    """A program: parties that come and go, what is refused at `d`, and a quota at one side that may move."""
    text = HEAD
    for name in ("x", "y"):
        network = draw(st.sampled_from((*NETWORKS, None)))
        if network is not None:
            text += f"external {name} {{ {f'cidr {chr(34)}{network}{chr(34)}' if network else ''} }}\n"
            text += f"call {name} -> d:web, d:raw\n"
    if draw(st.booleans()):
        text += "service n { http 80 }\ncall n -> d:web, d:raw\n"
    known = [name for name in ("s", "t", "n", "x", "y") if name in ("s", "t") or f"call {name} " in text]
    for port in ("web", "raw"):
        for name in draw(st.sampled_from(((f"g{port}",), (f"g{port}", f"h{port}")))):
            meant = sorted(draw(st.sets(st.sampled_from(known), min_size=1)))
            scope = "{" + ", ".join(meant) + "}"
            if draw(st.booleans()) and len(meant) < len(known):
                scope = f"* except {scope}"
            text += f"policy {name} = deny() on {scope} -> d:{port}\n"
            pinned = draw(st.sampled_from(("ingress", "egress", "")))
            text += f"pin {name} at {pinned}\n" if pinned else ""
    return text + MOVES.replace("SIDE", side)


@st.composite
def ends(draw: st.DrawFn) -> tuple[End, End]:
    sides = draw(st.sampled_from((("ingress", "egress"), ("egress", "ingress"), ("ingress", "ingress"))))
    found = []
    for side in sides:
        text = draw(texts(side))
        note(text)
        try:
            found.append(End(text, PODS))
        except (ProgramError, PlacementError, EmitError):
            assume(False)
    return found[0], found[1]


def inside(callers: Callers, peer: str) -> bool:
    address = ipaddress.ip_address(peer)
    found = False
    for layer in callers.layers:
        if not any(address in network for network in layer):
            break
        found = not found
    return found


class Ends(NamedTuple):
    """What the two ends of a call do with a request."""

    out: bool
    """The sender refuses it."""
    marks: bool
    into: bool
    """The receiver refuses it where it carries no marker."""
    marked: bool
    """And where it carries one."""

    @property
    def refused(self) -> bool:
        return self.out or (self.marked if self.marks else self.into)


def denies(part: Part, addresses: Addresses, hop: Hop, peer: str, *, met: bool = False) -> bool:
    """Whether a hop refuses a connection, or a request with a marker (`met`) or without one."""
    program = part.placed.program
    toggle = part.toggles.get(hop.name, Toggle())
    context = Context(
        program, addresses, AddressIndex(program, addresses), Mode.REDIRECT, program.services[hop.service]
    )
    if hop.carries_requests or hop.side is Side.EGRESS:
        skipped = toggle.off | (toggle.met if met else frozenset())
        found = [each for each in hop.policies if each.kind.name == "deny" and each.name not in skipped]
        who = [callers_in_scope(context, each, hop) for each in found]
        return any(callers is None or inside(callers, peer) for callers in who)
    address = ipaddress.ip_address(peer)
    made = chains(context, hop)
    sized = [(network.prefixlen, chain) for chain in made for network in chain.sources if address in network]
    rest = next(chain for chain in made if chain.rest)
    chosen = max(sized, key=lambda each: each[0])[1] if sized else rest
    return any("refused/" in json.dumps(each) for each in chosen.filters)


def ends_of(parts: Mapping[str, Part], addresses: Addresses, peer: str, port: int) -> Ends:
    service = next((name for name, pod in PODS.items() if pod == peer), "")

    def hop_of(name: str, side: Side) -> tuple[Part, Hop] | None:
        part = parts.get(name)
        found = hops(*part.placed).get(name, ()) if part is not None else ()
        chosen = (each for each in found if (each.side, each.destination, each.port.number) == (side, "d", port))
        hop = next(chosen, None)
        return None if hop is None or part is None else (part, hop)

    out, into = hop_of(service, Side.EGRESS), hop_of("d", Side.INGRESS)
    return Ends(
        out is not None and denies(out[0], addresses, out[1], peer),
        out is not None and out[0].toggles.get(out[1].name, Toggle()).marks,
        into is not None and denies(into[0], addresses, into[1], peer),
        into is not None and denies(into[0], addresses, into[1], peer, met=True),
    )


Seen = dict[tuple[str, int], Ends]


def seen(parts: Mapping[str, Part], addresses: Addresses) -> Seen:
    return {(peer, port): ends_of(parts, addresses, peer, port) for peer in PEERS for port in (80, 81)}


def whole(end: End) -> Seen:
    return seen({name: Part(end.placed, {}) for name in hops(*end.placed)}, end.addresses)


def test_who_is_left_out_stays_left_out_while_an_outside_party_goes() -> None:
    """In between, the policy has as many callers as the program, by chance: it is not for everybody all the same."""
    policy = "policy g = deny() on * except {s} -> d:web\npin g at ingress\n"
    x, y = (f'external {name} {{ cidr "192.0.2.0/24" }}\ncall {name} -> d:web\n' for name in "xy")
    old = End(HEAD + x + y + policy + MOVES.replace("SIDE", "ingress"), PODS)
    new = End(HEAD + x + policy + MOVES.replace("SIDE", "egress"), PODS)
    for step in steps(old.placed, new.placed, b"key"):
        assert not seen(step.parts, where(step, state(old), state(new)).addresses)["10.1.0.1", 80].refused, step.phase


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(both=ends())
def test_who_is_refused_by_both_plans_is_refused_in_between(both: tuple[End, End]) -> None:
    old, new = both
    before, after = whole(old), whole(new)
    following = renamed(new.placed, names({}, old.placed, new.placed))
    try:
        walked = steps(old.placed, following, b"key")
    except EmitError:
        assume(False)
    event(f"crossing: {bool(Change(old.placed, following).crossing)}")
    told = [seen(step.parts, where(step, state(old), state(new)).addresses) for step in walked]
    for (earlier, later), step in zip(pairwise([before, *told]), walked, strict=True):
        for who in before:
            # Proxies hear of a step in any order.
            ways = [
                Ends(one.out, one.marks, other.into, other.marked)
                for one, other in product((earlier[who], later[who]), repeat=2)
            ]
            if before[who].refused and after[who].refused:
                assert all(way.refused for way in ways), f"{step.phase}: {who} passes"
            if not before[who].refused and not after[who].refused:
                assert not any(way.refused for way in ways), f"{step.phase}: {who} does not pass"


def state(end: End) -> State:
    return State(Source(Path("policies.adm"), Mode.REDIRECT), *end.placed, end.addresses, "")


@pytest.mark.parametrize("back", [False, True])
def test_a_network_inside_of_another_is_refused_at_the_senders_too(back: bool) -> None:
    """What a sender may not call is told by the addresses that it dials."""
    inner = 'external x { cidr "10.1.0.0/16"  tcp 443 }\n'
    outer = 'external y { cidr "10.0.0.0/8"  tcp 443 }\n'
    texts = (
        inner + outer + "call s -> x, y\npolicy g = deny() on s -> {x, y}\n" + MOVES.replace("SIDE", "ingress"),
        outer + "call s -> y\npolicy g = deny() on s -> y\n" + MOVES.replace("SIDE", "egress"),
    )
    old, new = (End(HEAD + text, PODS) for text in (reversed(texts) if back else texts))
    for step in steps(old.placed, new.placed, b"key"):
        program, placement = step.parts["s"].placed
        context = Context(
            program, old.addresses, AddressIndex(program, old.addresses), Mode.REDIRECT, program.services["s"]
        )
        found = [hop for hop in hops(program, placement)["s"] if hop.port.number == 443]
        own = {network for hop in found for network in taken(context, hop)[443].own}
        others = {network for hop in found for network in taken(context, hop)[443].others}
        assert ipaddress.ip_network("10.0.0.0/8") in own, step.phase
        assert others <= own, step.phase
