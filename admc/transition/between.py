"""The policies of one step as programs and placements of their own.

    [Entry, ...] -> {service: Placed}

So everything that knows what to do with a program (the emitter, its checks, interception) knows it in the middle of a
transition, too. Where one ADM needs the old and the new version of a policy at once, the old one is called `NAME~old`:
no policy of a user can be called that, and a person can still tell whose it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admc.transition.model import Placed
from solver.placement import Placement, Status
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.transition.change import Change, Entry

OLD: Final = "~old"


def original(name: str) -> str:
    """The user's name of a policy that a step may have renamed."""
    return name.removesuffix(OLD)


def between(change: Change, entries: Sequence[Entry]) -> dict[str, Placed]:
    """What each service's ADM has, sorted by service."""
    local: dict[str, list[Entry]] = {}
    for entry in entries:
        for service in entry.hosts(change.program):
            local.setdefault(service, []).append(entry)
    # Services that need the same versions of all policies share a program.
    alike: dict[frozenset[int], list[str]] = {}
    for service in sorted(local):
        versions = frozenset(id(entry.policy) for entry in local[service] if _is_old(change, entry))
        alike.setdefault(versions, []).append(service)
    found: dict[str, Placed] = {}
    for services in alike.values():
        own = {id(entry): entry for service in services for entry in local[service]}
        here = [entry for entry in entries if id(entry) in own]
        placed = _placed(change, here)
        found.update(dict.fromkeys(services, placed))
    return {service: found[service] for service in sorted(found)}


def _is_old(change: Change, entry: Entry) -> bool:
    return change.old.get(entry.key) is entry


def _placed(change: Change, entries: Sequence[Entry]) -> Placed:
    new = {entry.policy.name: entry.policy for entry in entries if not _is_old(change, entry)}
    policies = dict(new)
    decisions = []
    for entry in entries:
        name = entry.policy.name
        if _is_old(change, entry):
            name = name + OLD if name in new else name
            policies[name] = replace(entry.policy, name=name)
        decisions.append(replace(entry.decision, policy=name))
    place = {name: index for index, name in enumerate(change.order)}
    # A network inside of another would be taken out of that one's where nothing is said of it.
    named = {name for entry in entries for name in (entry.decision.destination, *targets(entry.policy))}
    absent = change.outside - named
    ordered = sorted(
        (
            replace(policy, sources=policy.sources - absent) if absent and policy.home is None else policy
            for policy in policies.values()
        ),
        key=lambda policy: (place[original(policy.name)], policy.name),
    )
    externals = {name: party for name, party in change.program.externals.items() if name not in absent}
    program = replace(change.program, externals=externals, policies=tuple(ordered))
    return Placed(program, Placement(tuple(decisions), (), (), Status.FEASIBLE, ()))
