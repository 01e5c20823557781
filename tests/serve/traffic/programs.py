"""Variants of a program: the text of each, and its effects on a request.

The status of a request, the headers that its receiver saw and the headers of its response show the policies that it
met. An *aspect* is the effect of one policy: what a request shows under a program (`expected`), and the part of the
program that decides which filters there are (`filters`). If that differs between two programs, older connections keep
the earlier filter chain, with all its arguments, until they are closed. Arguments of guards, and of a chain that stays,
change on open connections.

Each program has a policy at both ends of every call, so callers dial the same addresses under all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

from tests.testbed.callers import RequestSpec

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
    """The side of all movable policies at this destination."""
    stock: str = INGRESS
    ledger: str = INGRESS
    once: str = "1"
    """Value of a header that is added: a request that meets the policy twice has it twice."""
    wide: bool = False
    """Whether both callers are in the scope of `wide`."""
    said: str | None = "1"
    shut: bool = False
    tier: str | None = None
    stamped: str | None = None
    attempts: int | None = None
    slow: int = 20
    requests: int = 1000
    balance: str | None = None

    def at(self, side: str) -> Self:
        """The same with all movable policies at one side."""
        return replace(self, cart=side, stock=side, ledger=side)

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


class Observed(NamedTuple):
    """What both ends saw of one request."""

    status: int | None
    """Of http, or of gRPC (0); for tcp 200 or None."""
    arrivals: tuple[dict[str, tuple[str, ...]], ...]
    """Headers of each arrival at the destination."""
    answer: dict[str, tuple[str, ...]]


OUT = (("x-out", "1"),)
FAILS_ONCE = (("x-echo-status", "14,0"),)
GRPC_UNAVAILABLE = 14


class Aspect(NamedTuple):
    """The effect of one policy on requests."""

    name: str
    concerns: Callable[[RequestSpec], bool]
    expected: Callable[[Variant, RequestSpec], Any]
    """The effect on a request under a program."""
    observed: Callable[[Observed], tuple[Any, ...]]
    """The observed effects, one for each attempt: attempts of one request may meet different programs."""
    filters: Callable[[Variant], Any]
    """If this differs between two programs, older connections keep the filters of the earlier one."""
    is_guard: bool = False


def _to(destination: str) -> Callable[[RequestSpec], bool]:
    return lambda spec: spec.destination == destination


def _served(spec: RequestSpec) -> bool:
    """Whether it reaches its destination under every program."""
    return spec.destination == "cart" and spec.path == "/" and not spec.headers


def _header(name: str) -> Callable[[Observed], tuple[Any, ...]]:
    """The values of a header at each arrival."""
    return lambda observed: tuple(arrival.get(name, ()) for arrival in observed.arrivals)


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _status(variant: Variant, spec: RequestSpec) -> Any:
    """Status and number of arrivals."""
    if spec.destination == "cart":
        refused = spec.headers == OUT or (spec.path == "/shut" and variant.shut)
        return (403, 0) if refused else (200, 1)
    if spec.destination == "ledger":
        return (200, 1) if spec.source == "shop" else (None, 0)
    if spec.headers == FAILS_ONCE:
        return (0, 2) if variant.attempts else (GRPC_UNAVAILABLE, 1)
    return 0, 1


def _cart_chain(variant: Variant) -> tuple[Any, ...]:
    """What decides which filters there are on the way to `cart`."""
    return variant.cart, variant.wide, variant.said is None, variant.shut, variant.stamped is None


def _stock_chain(variant: Variant) -> tuple[Any, ...]:
    return variant.stock, variant.tier is None


ASPECTS = (
    Aspect(
        "status",
        lambda spec: spec.path != "/few",
        _status,
        lambda it: ((it.status, len(it.arrivals)),),
        lambda v: (v.cart, v.shut, _stock_chain(v), v.ledger, v.attempts),
        is_guard=True,
    ),
    Aspect("once", _served, lambda v, _: _one(v.once), _header("x-once"), _cart_chain),
    Aspect(
        "wide",
        _served,
        lambda v, spec: _one("1" if spec.source == "shop" or v.wide else None),
        _header("x-wide"),
        _cart_chain,
    ),
    Aspect(
        "said",
        _served,
        lambda v, _: _one(v.said),
        lambda it: (it.answer.get("x-said", ()),),
        _cart_chain,
    ),
    Aspect("tier", _to("stock"), lambda v, _: _one(v.tier), _header("x-tier"), _stock_chain),
    Aspect(
        "stamp",
        _served,
        lambda v, spec: _one(v.stamped if spec.source == "shop" else None),
        _header("x-stamped"),
        _cart_chain,
    ),
    Aspect("marker", lambda _: True, lambda _, __: (), _header("x-admc-met"), lambda _: None),
)

OTHER_FIELDS = ("once", "wide", "said", "shut", "tier", "stamped", "attempts", "slow", "requests", "balance")
SIDE_FIELDS = ("cart", "stock", "ledger")


def changes(seed: int, moving: Callable[[int], bool]) -> Iterator[Variant]:
    """An endless random walk: each variant differs from the one before in one to three fields, and also in sides where
    `moving` is true of its index."""
    choose = random.Random(seed)  # noqa: S311 - a test
    variant = Variant()
    for index in range(1 << 30):
        names = choose.sample(OTHER_FIELDS, choose.randint(1, 3))
        if moving(index):
            names += choose.sample(SIDE_FIELDS, choose.randint(1, 3))
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


assert {field.name for field in fields(Variant)} == {*OTHER_FIELDS, *SIDE_FIELDS}
