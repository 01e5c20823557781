"""Plans to which no steps lead safely (ADM855), each with a way round: two plans, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.errors import EmitError

if TYPE_CHECKING:
    from admc.rollout.diff import Diff
    from dsl.program import Policy, Port


def _refused(message: str, policy: Policy, cause: str, hint: str) -> EmitError:
    return EmitError((Diagnostic("ADM855", Severity.ERROR, message, policy.span, cause=cause, hint=hint),))


def both_ways(destination: str, up: Policy, down: Policy) -> EmitError:
    """Policies change sides in both directions, and change otherwise, too."""
    one, other = up.name.partition("~")[0], down.name.partition("~")[0]
    return _refused(
        f"`{one}` goes to the senders of `{destination}` while `{other}` comes to its ingress, and more than the sides "
        "changes",
        up,
        "meanwhile senders would enforce both, which is neither the old plan nor the new one",
        f"make two plans of it: first the one in which `{one}` moves, then the one with all the rest",
    )


def sends_from_moving(policy: Policy, sender: str, helper: str, destination: str) -> EmitError:
    """What an ADM sends by itself begins or ends at a destination that moves itself."""
    return _refused(
        f"the ADM of `{sender}` begins or ceases to send requests of its own to `{helper}` for `{policy.name}`, while "
        f"policies change sides at `{helper}` and at `{destination}`",
        policy,
        "what an ADM sends by itself meets only what the receiver enforces, so it has to end before policies change "
        "sides there, or begin afterwards",
        f"make two plans of it: one in which `{policy.name}` comes or goes, and one with the other changes",
    )


def stops_and_begins(policy: Policy, sender: str, helper: str, destination: str) -> EmitError:
    """At one destination some of what ADMs send by themselves ends, and some begins."""
    return _refused(
        f"the ADM of `{sender}` ceases to send requests of its own to `{helper}` for `{policy.name}`, and at "
        f"`{destination}` others begin, while policies change sides at the services that they go to",
        policy,
        "the one has to be first, the other last, and a destination changes at one moment",
        f"make two plans of it: first the one without `{policy.name}`, then the one with the rest",
    )


def check_port(diff: Diff, port: tuple[str, int]) -> None:
    """Raises `EmitError` where a port that moves has another number or protocol in each plan."""
    found: dict[int, tuple[Port, Policy]] = {}
    for plan, hops in enumerate(diff.frame.hops):
        for hop in (hops[key] for key in diff.ends(port) if key in hops):
            found.setdefault(plan, (hop.port, hop.policies[0]))
    services = [each.program.services.get(port[0]) for each in diff.frame.plans]
    if None in services:
        return
    old, new = (
        {(each.number, each.target, each.protocol) for each in service.ports if service is not None}
        for service in services
        if service is not None
    )
    numbers = {found[plan][0].number for plan in found}
    changed = {each for each in old ^ new if each[1] == port[1] or each[0] in numbers}
    if not changed:
        return
    policy = found[max(found)][1]
    raise _refused(
        f"a port of `{port[0]}` changes while policies change sides at it",
        policy,
        f"its number, protocol or target {port[1]} is another one in the new plan, so requests could reach pods of "
        "either plan at a port at which only one of the two plans is enforced",
        "make two plans of it: first the one in which policies change sides, then the one with the other port",
    )
