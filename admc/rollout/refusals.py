"""Plans to which no steps lead safely (ADM855), each with a way round: two plans, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.rollout.enforcement import HopKey, same
from admc.rollout.model import Plan
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Side
from emitters.errors import EmitError
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.rollout.diff import Diff
    from admc.rollout.model import Port
    from dsl.program import Policy


def _refused(message: str, policy: Policy, cause: str, parts: str) -> EmitError:
    """`parts`: the two plans that lead there."""
    hint = f"make two plans of it: {parts}"
    return EmitError((Diagnostic("ADM855", Severity.ERROR, message, policy.span, cause=cause, hint=hint),))


def marker_meaning(diff: Diff, port: Port) -> Plan:
    """The plan that requests with the marker meet at a port that moves. Raises `EmitError` where nothing is safe."""
    if _port_changes(diff, port):
        policies = (policy for plan in (1, 0) for key in diff.ends(port) for policy in diff.frame.policies(plan, key))
        raise _refused(
            f"a port of `{port[0]}` changes while policies change sides at it",
            next(policies),
            f"its number, protocol or target {port[1]} is another one in the new plan, so requests could reach pods of "
            "either plan at a port at which only one of the two plans is enforced",
            "first the one in which policies change sides, then the one with the other port",
        )
    up, down = (next(diff.pairs(port, side), None) for side in (Side.INGRESS, Side.EGRESS))
    if up is not None and down is not None:
        one, other = up.old.name, down.old.name
        raise _refused(
            f"`{one}` goes to the senders of `{port[0]}` while `{other}` comes to its ingress",
            up.old,
            "between the two plans a request could meet one of them at both ends, and the other at neither",
            f"first the one in which `{one}` moves, then the one with all the rest",
        )
    # Also where no policy takes the place of another, a lost marker means something of either plan.
    return Plan.NEW if down is None and diff.crosses(port, Side.INGRESS) else Plan.OLD


def _port_changes(diff: Diff, port: Port) -> bool:
    """Whether a port that moves has another number, target or protocol in each plan."""
    old, new = (placed.program.services.get(port[0]) for placed in diff.frame.plans)
    if old is None or new is None:
        return False
    before, after = ({(each.number, each.target, each.protocol) for each in service.ports} for service in (old, new))
    return any(target == port[1] for _, target, _ in before ^ after)


class _OwnRequests(NamedTuple):
    """The requests that an ADM sends by itself for one policy of a hop."""

    to: str
    """The service that gets them."""
    key: HopKey
    policy: Policy


def check_own_requests(diff: Diff) -> None:
    """Raises `EmitError` where requests that ADMs send by themselves begin or end while policies move where they go.

    An ADM asks a service for an `external_authorization`, copies requests to it (`mirror`) or sends it a share
    (`split`). None of these pass the filters that the ADM has for calls to that service, and none carry a marker: they
    meet what the receiver enforces on unmarked requests, in whatever step they begin or end.
    """
    before, after = ({(each.key.service, each.to): each for each in _own_requests(diff, plan)} for plan in range(2))
    for way in sorted(before.keys() ^ after.keys()):
        found = before.get(way) or after[way]
        if _concerns(diff, found):
            name = found.policy.name
            raise _refused(
                f"the ADM of `{found.key.service}` begins or ceases to send requests of its own to `{found.to}` for "
                f"`{name}`, while policies change sides at `{found.to}`",
                found.policy,
                "what an ADM sends by itself meets only what the receiver enforces, which changes between the steps",
                f"one in which `{name}` comes or goes, and one with the other changes",
            )


def _own_requests(diff: Diff, plan: int) -> Iterator[_OwnRequests]:
    for key in diff.frame.keys:
        for policy in diff.frame.policies(plan, key):
            for to in sorted(set(targets(policy))):
                yield _OwnRequests(to, key, policy)


def _concerns(diff: Diff, requests: _OwnRequests) -> bool:
    """Whether what the receiver enforces on the sender changes, at some port that moves."""
    for port in diff.moving:
        if port[0] == requests.to:
            old, new = (_received(diff, plan, port, requests.key.service) for plan in range(2))
            if len(old) != len(new) or not all(map(_alike, old, new)):
                return True
    return False


def _alike(one: Policy, other: Policy) -> bool:
    return one.name == other.name and same(one, other, Side.INGRESS, arguments=False)


def _received(diff: Diff, plan: int, port: Port, sender: str) -> list[Policy]:
    """What the receiver enforces on a sender at a port: the same, whichever number leads to it."""
    held = (diff.frame.policies(plan, key) for key in diff.ends(port) if key.side is Side.INGRESS)
    found = next(filter(None, held), ())
    return [policy for policy in found if sender in policy.sources]
