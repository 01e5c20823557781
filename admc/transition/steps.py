"""What happens when, from one state to the next.

    (old, new, key) -> [Step, ...]

What changes sides at one destination while requests come in:

    step        senders                              receiver
    announce    as before                            as before
    prepare     what comes is there, skipped         what leaves: unless marked; what comes is there, skipped
      (wait until no connection is left that is older than these filters, or than the redirection)
    senders     what comes and what leaves; marked
    receivers                                        what leaves: never; what comes: unless marked
    release     what comes only, not marked
    final       without what left                    without what left; what comes: always
      (wait until no connection is left that is older)
    clean       as if nothing had been               as if nothing had been

Each step changes one end of a call only. A request meets the old side or the new one, never neither, and never both:
from `senders` to `release` the marker says which. Whatever goes wrong with the marker means both, not neither.

Destinations that have to change one after the other (`asks`) take `senders` to `release` in rounds of their own, and
`release` waits until no connection is left that is older.

Where no marker is needed, since meeting a policy twice is the same as once, or possible (connections, filters of a
cluster), both sides hold from `prepare` on. What comes or leaves without a counterpart at the other side changes with
its own ADM, at once.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admc.transition.between import between
from admc.transition.captures import of_parts
from admc.transition.change import Change
from admc.transition.model import Part, Phase, Placed, Step
from admc.transition.ports import check
from admc.transition.reasons import reasons
from admc.transition.schedule import At, HopKey, course, present, toggles
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.transition.change import Entry

_SIMPLE: Final = (At(Phase.FINAL), At(Phase.CLEAN))


def steps(old: Placed, new: Placed, key: bytes, undone: frozenset[str] = frozenset()) -> tuple[Step, ...]:
    """The steps from one state to another. `key` is secret: the markers are derived from it.

    `undone` is where route tables still skip filters for a transition that was taken back. They forget that before any
    listener may have such a filter again.
    """
    change = Change(old, new)
    check(change, old.program, new.program)
    secrets = {name: _secret(key, name, old, new) for name in sorted(change.marked)}
    whole = course(change) if change.crossing else (At(Phase.ANNOUNCE), *_SIMPLE) if undone else _SIMPLE
    # Where one plan's policies stand alone they stand in its own program: whom only the other one knows would be told
    # from callers and destinations there whom this plan takes for one.
    first, last = _own(old), _own(new)
    own = {Phase.ANNOUNCE: first, Phase.FINAL: last, Phase.CLEAN: last}
    # Phases with the same entries share what they are emitted from.
    known: dict[tuple[int, ...], Mapping[str, Placed]] = {}
    placed = {at: own[at.phase] if at.phase in own else _between(change, at, known) for at in whole}
    parts = {at: _parts(change, at, secrets, placed[at]) for at in whole}
    before = _hops(between(change, tuple(change.old.values())))
    wide = Phase.PREPARE if change.crossing else Phase.FINAL
    # Whatever comes later in the transition is asked for from the beginning.
    redirected = between(change, _both(change))
    during = _hops(redirected)
    replacing = tuple(entry for entry in change.coming if entry.decision.destination in change.crossing)
    after = _hops({name: part.placed for name, part in parts[_SIMPLE[-1]].items()})
    moved = frozenset(
        host for entry in (*change.coming, *change.leaving, *change.changed) for host in entry.hosts(change.program)
    )
    about = {at: sorted(moved | undone if at.phase is Phase.ANNOUNCE else moved) for at in whole}
    rounds = max(at.round for at in whole)
    closed_before, closed_after = set(old.placement.closed), set(new.placement.closed)
    return tuple(
        Step(
            phase,
            parts[at],
            awaits=tuple(name for name in about[at] if name in parts[at] and name in new.program.services),
            leaves=tuple(name for name in about[at] if name not in parts[at] or name not in new.program.services),
            drain=phase in (Phase.PREPARE, Phase.FINAL) or (phase is Phase.RELEASE and at.round < rounds),
            intercept=_services(during - before) if phase is wide else (),
            redirected=redirected if phase is wide else {},
            rests=of_parts(between(change, replacing)) if phase is Phase.PREPARE else {},
            closes=tuple(sorted(closed_after - closed_before)) if phase is wide else (),
            release=_services(during - after) if phase is Phase.CLEAN else (),
            opens=tuple(sorted(closed_before - closed_after)) if phase is Phase.CLEAN else (),
            reasons=reasons(change, at),
            secrets=frozenset(secrets.values()),
        )
        for at in whole
        for phase in (at.phase,)
    )


def outlasting(steps: tuple[Step, ...], lingering: frozenset[str]) -> tuple[Step, ...]:
    """The steps, if an earlier transition was left before its last wait was over, at these services.

    What it kept for their older connections goes with the last step, so the wait before that is for these, too. So is
    the one before policies change sides: for what only those connections have, an ADM may ask services by itself.
    """
    return tuple(
        replace(
            step,
            awaits=tuple(name for name in step.parts if name in lingering - set(step.leaves) or name in step.awaits),
            leaves=tuple(sorted({*step.leaves, *(lingering - step.parts.keys())})),
        )
        if step.phase in (Phase.PREPARE, Phase.FINAL)
        else step
        for step in steps
    )


def version(placed: Placed) -> str:
    """The same for the same files and decisions."""
    parts = [f"{item.path}\0{item.sha256}" for item in placed.program.inputs]
    parts += [f"{one.policy}\0{one.destination}\0{'+'.join(one.sides)}" for one in placed.placement.decisions]
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _both(change: Change) -> tuple[Entry, ...]:
    """All entries of either plan; those that stay as they are once."""
    old = (entry for key, entry in change.old.items() if key not in change.new or not change.new[key].same(entry))
    return (*old, *change.new.values())


def _secret(key: bytes, destination: str, old: Placed, new: Placed) -> str:
    """A value that only ADMs get. Another transition, or another destination, has another."""
    parts = (version(old), version(new), destination)
    return hmac.new(key, "\0".join(parts).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _own(placed: Placed) -> Mapping[str, Placed]:
    """What each service's ADM has of a plan by itself."""
    return {service: placed for service, found in hops(*placed).items() if found}


def _between(change: Change, at: At, known: dict[tuple[int, ...], Mapping[str, Placed]]) -> Mapping[str, Placed]:
    entries = present(change, at)
    same = tuple(map(id, entries))
    if same not in known:
        known[same] = between(change, entries)
    return known[same]


def _parts(change: Change, at: At, secrets: dict[str, str], placed: Mapping[str, Placed]) -> dict[str, Part]:
    told = {} if at.phase is Phase.CLEAN else toggles(change, at, secrets)
    names: dict[str, dict[HopKey, str]] = {}
    for key, name in _named(placed):
        names.setdefault(key[0], {})[key] = name
    return {
        service: Part(own, {name: told[key] for key, name in names.get(service, {}).items() if key in told})
        for service, own in placed.items()
    }


def _named(placed: Mapping[str, Placed]) -> Iterable[tuple[HopKey, str]]:
    done: dict[int, dict[str, list[tuple[HopKey, str]]]] = {}
    for service, own in placed.items():
        if id(own) not in done:
            done[id(own)] = {
                name: [((name, hop.side, hop.destination, hop.port.number), hop.name) for hop in found]
                for name, found in hops(own.program, own.placement).items()
            }
        yield from done[id(own)].get(service, ())


def _hops(placed: Mapping[str, Placed]) -> frozenset[HopKey]:
    return frozenset(key for key, _ in _named(placed))


def _services(keys: Iterable[HopKey]) -> tuple[str, ...]:
    return tuple(sorted({service for service, *_ in keys}))
