"""What older connections still have of policies that plans have dropped or renamed, and what a plan's policies are
called meanwhile.

    ({}, old plan, new plan) -> Dropped     (Dropped, new plan, the next one) -> names     renamed(the next one, names)

A connection that is older than a listener has its filters, each by its name and with the newest configuration of that
name. If `a` becomes `b` the older ones go on with `a`. A plan that then has an `a` again, or gives that name to another
policy at once, would reach those: they would meet the other policy in its place, and one that waits to be put in force
would be skipped, so that they met neither `a` nor `b`. So it is called `a~2` until those connections are closed: no
policy of a user can be called that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from admc.transition.change import Change, akin, alike, may_replace
from admc.transition.model import Placed
from dsl.program import Side
from emitters.envoy.names import filter_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from admc.transition.change import Entry
    from dsl.program import Policy

AGAIN: Final = "~"

Names = Mapping[str, str]
"""Policy -> what it is called meanwhile; of those that are called otherwise."""

Key = tuple[str, Side, str]
"""Destination, side, what the filter is called in any hop."""

Dropped = Mapping[Key, "Policy | None"]
"""Filters that connections may have, and no plan has any more -> the policy. None: it is not known, or skipped."""


def dropped(earlier: Dropped, old: Placed, new: Placed) -> Dropped:
    """What connections may have that are older than the new plan, and it has not."""
    here = _filters(new)
    return {key: policy for key, policy in {**earlier, **_filters(old)}.items() if key not in here}


def names(older: Dropped, now: Placed, following: Placed) -> Names:
    """What to call policies of a plan that follows, so that connections keep what they have."""
    before, after = now.program.policy_by_name, following.program.policy_by_name
    if not older and all(name not in before or alike(policy, before[name]) for name, policy in after.items()):
        return {}
    change = Change(now, following)
    # In one frame: a policy for everybody is the same though there are more of them.
    before = {entry.policy.name: entry.policy for entry in change.old.values()}
    after = {entry.policy.name: entry.policy for entry in change.new.values()}
    given = _given_away(before, after) | _handed_on(change)
    taken = {key[2] for key in (*older, *_filters(now))}
    placed: dict[str, list[Key]] = {}
    for key in _filters(following):
        placed.setdefault(key[2], []).append(key)
    current = {original(name): policy for name, policy in before.items() if name != original(name)}
    found: dict[str, str] = {}
    for policy in after.values():
        keys = placed.get(_called(policy, policy.name), [])
        if policy.name not in given and all(_may_have(older, key, policy, change.crossing) for key in keys):
            continue
        called = current.get(policy.name)
        if called is not None and alike(called, policy):
            found[policy.name] = called.name  # already
            continue
        others = (f"{policy.name}{AGAIN}{number}" for number in count(2))
        found[policy.name] = next(name for name in others if _called(policy, name) not in taken)
    return found


def renamed(placed: Placed, names: Names) -> Placed:
    """A plan with other names. Nothing else of it changes."""
    if not names:
        return placed
    program, placement = placed
    called = {policy.name: names.get(policy.name, policy.name) for policy in program.policies}
    return Placed(
        replace(program, policies=tuple(replace(policy, name=called[policy.name]) for policy in program.policies)),
        replace(
            placement,
            decisions=tuple(replace(decision, policy=called[decision.policy]) for decision in placement.decisions),
            adms=tuple(
                replace(
                    adm,
                    ingress=tuple(called[name] for name in adm.ingress),
                    egress=tuple(called[name] for name in adm.egress),
                )
                for adm in placement.adms
            ),
        ),
    )


def original(name: str) -> str:
    """The user's name of a policy that is called otherwise meanwhile."""
    return name.partition(AGAIN)[0]


def _may_have(older: Dropped, key: Key, policy: Policy, crossing: frozenset[str]) -> bool:
    """Whether a policy may have a filter of this name: what comes back is what it was, and at once in force."""
    if key not in older:
        return True
    before = older[key]
    return before is not None and key[0] not in crossing and alike(policy, before)


def _given_away(before: Mapping[str, Policy], after: Mapping[str, Policy]) -> frozenset[str]:
    """Names that go to another policy, while that which has had the name goes on under another, or that which gets it
    has gone by another: with all of its requests or with some, as where one policy becomes two. A policy that only
    changes keeps its name, so that open connections have it as it is now."""
    changed = {name for name, policy in after.items() if name in before and not alike(policy, before[name])}
    if not changed:
        return frozenset()
    came = [policy for name, policy in after.items() if name not in before or name in changed]
    went = [policy for name, policy in before.items() if name not in after or name in changed]
    return frozenset(
        name
        for name in changed
        if any(policy.name != name and akin(policy, before[name]) for policy in came)
        or any(policy.name != name and akin(policy, after[name]) for policy in went)
    )


def _handed_on(change: Change) -> frozenset[str]:
    """Names of policies that change where they are, while another takes over some of their requests, or loses some to
    them: what they were and what they become then leave and come like any other."""
    found = set()
    for after in change.changed:
        before = change.old[after.key]
        given = not _includes(after.policy, before.policy) and _shares(before, change.new.values(), change.old.values())
        if given or (
            not _includes(before.policy, after.policy) and _shares(after, change.old.values(), change.new.values())
        ):
            found.add(after.policy.name)
    return frozenset(found)


def _shares(entry: Entry, others: Iterable[Entry], elsewhere: Collection[Entry]) -> bool:
    """Whether some other policy, of its kind or as much a guard, is for some of its requests in the plan that it is not
    in, and was not so anyway."""
    return any(
        other.policy.name != entry.policy.name
        and other.decision.destination == entry.decision.destination
        and (other.policy.kind.name == entry.policy.kind.name or (other.policy.kind.guard and entry.policy.kind.guard))
        and may_replace(entry.policy, other.policy)
        and not any(
            each.policy.name == other.policy.name
            and each.decision.destination == other.decision.destination
            and _includes(each.policy, other.policy)
            for each in elsewhere
        )
        for other in others
    )


def _includes(one: Policy, other: Policy) -> bool:
    """Whether whatever meets the second meets the first, which is of its kind."""
    return (
        one.kind.name == other.kind.name
        and one.sources >= other.sources
        and (one.open_sources or not other.open_sources)
        and (one.ports is None or (other.ports is not None and one.ports >= other.ports))
        and (one.match is None or one.match == other.match)
    )


def _called(policy: Policy, name: str) -> str:
    return filter_name("", replace(policy, name=name))


def _filters(placed: Placed) -> dict[Key, Policy]:
    policies = placed.program.policy_by_name
    return {
        (decision.destination, side, filter_name("", policies[decision.policy])): policies[decision.policy]
        for decision in placed.placement.decisions
        for side in decision.sides
    }
