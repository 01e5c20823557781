"""Programs that differ in one thing or in many, as data: the text of each, and what a request may meet under it.

Every request shows by itself what was done to it: by its status, by headers that its receiver saw, by headers of the
answer. So an *aspect* is one policy seen from outside: what it does to a request under a program (`does`), and on what
of the program it depends which filters there are (`filters`): connections that are older than those keep others until
they are closed, while arguments reach open connections.

There is a policy at both ends of every call whatever the program, so that callers never have to dial elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

INGRESS, EGRESS = "ingress", "egress"

TEXT = """
app traffic
service shop   { http PORT }
service till   { http PORT }
service cart   { http PORT }
service stock  { grpc PORT }
service ledger { tcp PORT }
call shop, till -> cart, stock, ledger

@egress(upstream)
@effect(writes(header))
kind stamped(name: header, value: string) for http, grpc template "stamped.yaml"
"""
STAMPED = """\
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: "${name}", value: "${value}"}}}]}
"""
FILES = {"stamped.yaml": STAMPED}
BURST = 3


@dataclass(frozen=True, slots=True)
class Variant:
    """One program. None leaves a policy out."""

    cart: str = INGRESS
    """The side of everything that may move at this destination."""
    stock: str = INGRESS
    ledger: str = INGRESS
    once: str = "1"
    """Marked: it would add up."""
    wide: bool = False
    """Whether the other caller is in its scope."""
    said: str | None = "1"
    shut: bool = False
    tier: str | None = None
    stamped: str | None = None
    attempts: int | None = None
    slow: int = 20
    requests: int = 1000
    balance: str | None = None

    def text(self, port: int) -> str:
        both = "{shop, till}"
        lines = [
            f'policy closed = deny() on {both} -> cart when header("x-out") == "1"',
            f'policy shut = deny() on {both} -> cart when path == "/shut"' if self.shut else "",
            f'policy few = rate_limit(requests: {BURST}, per: 1h) on shop -> cart when path == "/few"',
            f'policy once = add_request_header(name: "x-once", value: "{self.once}") on {both} -> cart',
            f'policy wide = set_request_header(name: "x-wide", value: "1") on {both if self.wide else "shop"} -> cart',
            f'policy said = add_response_header(name: "x-said", value: "{self.said}") on {both} -> cart'
            if self.said
            else "",
            f'policy tier = set_request_header(name: "x-tier", value: "{self.tier}") on {both} -> stock'
            if self.tier
            else "",
            f'policy stamp = stamped(name: "x-stamped", value: "{self.stamped}") on shop -> cart'
            if self.stamped
            else "",
            f"policy slow = timeout(after: {self.slow}s) on {both} -> stock",
            f"policy again = retry(attempts: {self.attempts}, backoff: 1ms) on shop -> stock" if self.attempts else "",
            f"policy balanced = load_balancing(policy: {self.balance}) on till -> stock" if self.balance else "",
            f"policy breaker = circuit_breaking(max_requests: {self.requests}) on {both} -> {{cart, stock}}",
            f"policy door = allow(callers: [shop]) on {both} -> ledger",
            f"policy pool = circuit_breaking(max_connections: {self.requests}) on {both} -> ledger",
            f"policy spread = load_balancing(policy: round_robin) on {both} -> {{cart, ledger}}",
            *(f"pin {name} at {self.cart}" for name in ("closed", "few", "once", "wide")),
            f"pin shut at {self.cart}" if self.shut else "",
            f"pin said at {self.cart}" if self.said else "",
            f"pin tier at {self.stock}" if self.tier else "",
            f"pin door at {self.ledger}",
        ]
        return "\n".join([TEXT.replace("PORT", str(port)), *filter(None, lines), ""])


class Ask(NamedTuple):
    """One request that a caller makes again and again."""

    source: str
    destination: str
    protocol: str
    """`http`, `h2c`, `grpc` or `tcp`."""
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


class Observed(NamedTuple):
    """What could be seen of one request, from both ends."""

    status: int | None
    """Of http, or of gRPC (0); for tcp 200 or None."""
    arrivals: tuple[dict[str, tuple[str, ...]], ...]
    """Headers of each arrival at the destination."""
    answer: dict[str, tuple[str, ...]]


OUT = (("x-out", "1"),)
FAILS_ONCE = (("x-echo-status", "14,0"),)
GRPC_UNAVAILABLE = 14


class Aspect(NamedTuple):
    """One policy as seen from outside."""

    name: str
    about: Callable[[Ask], bool]
    does: Callable[[Variant, Ask], Any]
    """What the policy makes of a request under a program."""
    seen: Callable[[Observed], tuple[Any, ...]]
    """The same, as it was seen: attempts of one request may meet different programs."""
    filters: Callable[[Variant], Any]
    """Where this differs between two programs, connections may be older than the policy's filters."""
    guards: bool = False


def _to(destination: str) -> Callable[[Ask], bool]:
    return lambda ask: ask.destination == destination


def _served(ask: Ask) -> bool:
    """Whether it reaches its destination under every program."""
    return ask.destination == "cart" and ask.path == "/" and not ask.headers


def _header(name: str) -> Callable[[Observed], tuple[Any, ...]]:
    """The values of a header at each arrival."""
    return lambda observed: tuple(arrival.get(name, ()) for arrival in observed.arrivals)


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _status(variant: Variant, ask: Ask) -> Any:
    """Status and number of arrivals."""
    if ask.destination == "cart":
        refused = ask.headers == OUT or (ask.path == "/shut" and variant.shut)
        return (403, 0) if refused else (200, 1)
    if ask.destination == "ledger":
        return (200, 1) if ask.source == "shop" else (None, 0)
    if ask.headers == FAILS_ONCE:
        return (0, 2) if variant.attempts else (GRPC_UNAVAILABLE, 1)
    return 0, 1


ASPECTS = (
    Aspect(
        "status",
        lambda ask: ask.path != "/few",
        _status,
        lambda it: ((it.status, len(it.arrivals)),),
        lambda v: (v.cart, v.shut, v.stock, v.ledger, v.attempts),
        guards=True,
    ),
    Aspect("once", _served, lambda v, _: _one(v.once), _header("x-once"), lambda v: v.cart),
    Aspect(
        "wide",
        _served,
        lambda v, ask: _one("1" if ask.source == "shop" or v.wide else None),
        _header("x-wide"),
        lambda v: (v.cart, v.wide),
    ),
    Aspect(
        "said",
        _served,
        lambda v, _: _one(v.said),
        lambda it: (it.answer.get("x-said", ()),),
        lambda v: (v.cart, v.said is None),
    ),
    Aspect("tier", _to("stock"), lambda v, _: _one(v.tier), _header("x-tier"), lambda v: (v.stock, v.tier is None)),
    Aspect(
        "stamp",
        _served,
        lambda v, ask: _one(v.stamped if ask.source == "shop" else None),
        _header("x-stamped"),
        lambda v: v.stamped is None,
    ),
    Aspect("marker", lambda _: True, lambda _, __: (), _header("x-admc-met"), lambda _: None),
)

CALM = ("once", "wide", "said", "shut", "tier", "stamped", "attempts", "slow", "requests", "balance")
MOVING = ("cart", "stock", "ledger")


def changes(seed: int, moving: Callable[[int], bool]) -> Iterator[Variant]:
    """An endless random walk: each differs from the one before in one to three things, in sides where `moving` says."""
    choose = random.Random(seed)  # noqa: S311 - a test
    variant = Variant()
    for index in range(1 << 30):
        names = choose.sample(CALM, choose.randint(1, 3))
        if moving(index):
            names += choose.sample(MOVING, choose.randint(1, 3))
        variant = replace(variant, **{name: _other(choose, name, getattr(variant, name)) for name in names})
        yield variant


def _other(choose: random.Random, name: str, now: Any) -> Any:
    number = str(choose.randint(1, 1_000_000))
    values: dict[str, tuple[Any, ...]] = {
        "once": (number,),
        "wide": (False, True),
        "said": (None, number),
        "shut": (False, True),
        "tier": (None, number),
        "stamped": (None, number),
        "attempts": (None, 2, 3),
        "slow": tuple(range(20, 30)),
        "requests": tuple(range(1000, 1010)),
        "balance": (None, "round_robin", "least_request", "random"),
    }
    return choose.choice([value for value in values.get(name, (INGRESS, EGRESS)) if value != now])


assert {field.name for field in fields(Variant)} == {*CALM, *MOVING}
