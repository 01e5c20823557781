"""Variants of a program with a guard of every caller, which may be in the network: their texts, and their effects.

The guard admits `shop`, in some variants `till` as well, and no variant admits other callers. While a NetworkPolicy
refuses `till`, its requests fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from tests.serve.traffic.programs import ASPECTS, EGRESS, INGRESS, Variant

if TYPE_CHECKING:
    from tests.serve.traffic.programs import Aspect
    from tests.testbed.callers import RequestSpec

NETWORK = "network"
PLACES = (INGRESS, NETWORK, EGRESS)


@dataclass(frozen=True, slots=True)
class NetworkVariant(Variant):
    """One program."""

    gate: str = INGRESS
    """The place of the guard."""
    till: bool = True
    """Whether the guard admits `till`."""

    def at(self, side: str) -> Self:
        return replace(self, cart=side, stock=side, ledger=side, gate=side)

    @property
    def drops_till(self) -> bool:
        """Whether a NetworkPolicy refuses the requests of `till`."""
        return self.gate == NETWORK and not self.till

    def more(self, port: int) -> str:
        """What its program has beside the calls and policies of `shop`."""
        return f"""\
network_policies enforced
service till, rogue {{ http {port} }}
call till -> cart
policy gate = allow(callers: [{"shop, till" if self.till else "shop"}]) on * -> cart accept drop
policy once_of_till = add_request_header(name: "x-once", value: "{self.once}") on till -> cart
policy left = set_request_header(name: "x-left", value: "1") on {{shop, till}} -> cart
policy door = set_request_header(name: "x-door", value: "1") on {{shop, till}} -> cart
pin gate at {self.gate}
pin once_of_till at {self.cart}
pin left at egress
pin door at ingress
"""


def may_follow(old: NetworkVariant, new: NetworkVariant) -> bool:
    """Whether a server rolls out one program after another one, and all connections meet the new one.

    No safe steps lead to a program by which policies move both ways between senders and receivers. And where a guard in
    the network admits fewer callers, and nothing moves, open connections stay (docs/rollout.md).
    """
    crosses = {old.gate, new.gate} == {INGRESS, EGRESS} and (old.cart, new.cart) == (new.gate, old.gate)
    narrows = old.gate == NETWORK and old.till and new.drops_till
    return not crosses and not (narrows and old.cart == new.cart)


def _status(variant: Any, spec: RequestSpec) -> Any:
    """Status and number of arrivals."""
    if spec.source == "till":
        if variant.drops_till:
            return (None, 0)
        return (200, 1) if variant.till else (403, 0)
    return ASPECTS[0].expected(variant, spec)


def _chain(variant: Any) -> Any:
    """What decides which filters there are on the way to `cart`."""
    return variant.cart, variant.gate, variant.till, variant.said is None, variant.shut


def _aspect(aspect: Aspect) -> Aspect:
    def concerns(spec: RequestSpec) -> bool:
        return aspect.concerns(spec) and (spec.source == "shop" or aspect.name != "said")

    expected = _status if aspect.is_guard else aspect.expected
    return aspect._replace(concerns=concerns, expected=expected, filters=_chain)


NETWORK_ASPECTS = tuple(map(_aspect, ASPECTS))
