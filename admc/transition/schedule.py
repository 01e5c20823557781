"""Who is there in which step, and which requests meet them: the table behind `steps`.

Each line says in which phases an entry is in its ADM's chains, in which of them no request meets it (`off`), and in
which one that carries the marker does not (`met`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.transition.between import OLD
from admc.transition.model import Phase, Toggle
from dsl.program import Side
from emitters.envoy.kinds.registry import filter_names
from emitters.hops import hop_name

if TYPE_CHECKING:
    from admc.transition.change import Change, Entry

PHASES: Final = tuple(Phase)
ROUND: Final = (Phase.SENDERS, Phase.RECEIVERS, Phase.RELEASE)
"""What is done again where destinations have to change one after the other (`asks`)."""
_ANNOUNCE, _PREPARE, _SENDERS, _RECEIVERS, _RELEASE, _FINAL, _CLEAN = PHASES


class When(NamedTuple):
    """`there` is a slice of the phases."""

    there: tuple[Phase, ...]
    off: tuple[Phase, ...] = ()
    met: tuple[Phase, ...] = ()


_SINGLE: Final = {
    (True, Side.EGRESS): When(PHASES[1:], off=PHASES[:2]),
    (True, Side.INGRESS): When(PHASES[1:], off=PHASES[:3], met=(_RECEIVERS, _RELEASE)),
    (False, Side.EGRESS): When(PHASES[:5], off=(_RELEASE, _FINAL)),
    (False, Side.INGRESS): When(PHASES[:5], met=PHASES[1:3], off=(_RECEIVERS, _RELEASE, _FINAL)),
}
"""(comes, side) -> when, where the marker keeps it single: what leaves one side has its like at the other. In the first
step no receiver heeds the marker: not every sender takes it away yet from what an application may send."""

_APART: Final = {
    (True, Side.EGRESS): _SINGLE[True, Side.EGRESS],
    (True, Side.INGRESS): _SINGLE[True, Side.INGRESS]._replace(met=()),
    (False, Side.EGRESS): _SINGLE[False, Side.EGRESS],
    (False, Side.INGRESS): _SINGLE[False, Side.INGRESS]._replace(met=()),
}
"""The same for what has no like at the other side: the marker says nothing of it. Nobody knows what it is replaced by,
so it leaves when all that comes is in force."""

_RENAMED: Final = {
    **_APART,
    (False, Side.EGRESS): When(PHASES[:5], off=PHASES[2:6]),
}
"""The same for what has its like at the same side."""

_DOUBLE: Final = {
    (True, Side.EGRESS): When(PHASES[1:]),
    (True, Side.INGRESS): When(PHASES[1:]),
    (False, Side.EGRESS): When(PHASES[:5]),
    (False, Side.INGRESS): When(PHASES[:3]),
}
"""The same where both sides hold for a while. A proxy takes clusters before route tables, so that what sits in a
sender's cluster stays there until no route table marks requests: the receiver skips its like for those."""

_ALONE: Final = {
    (True, Side.EGRESS): When(PHASES[2:]),
    (True, Side.INGRESS): When(PHASES[3:]),
    (False, Side.EGRESS): When(PHASES[:2]),
    (False, Side.INGRESS): When(PHASES[:3]),
}
"""The same at destinations where nothing changes sides, for what changes in place, for what never moves (of two splits
or two timeouts one takes the place of the other at once), and for what only gets another name where no marker could
tell which of the two a request has met."""

_FORWARDS: Final = {
    (True, Side.EGRESS): When(PHASES[4:]),
    (False, Side.EGRESS): When(PHASES[:2]),
}
"""The same for what copies requests, or sends them on, to a destination at which something changes sides. They meet
nothing of what their sender enforces there, so they are sent as long as the receiver enforces on all but the marked."""


def when(change: Change, entry: Entry, *, comes: bool) -> When:
    """When an entry of one end of a transition is there."""
    destination = entry.decision.destination
    if not change.moves(entry):
        if change.old[entry.key].same(change.new[entry.key]):
            return When(PHASES if comes else ())
        return (_FORWARDS if change.forwards(entry) else _ALONE)[comes, entry.side]
    if change.forwards(entry):
        return _FORWARDS[comes, entry.side]
    if destination not in change.crossing or change.stays(entry):
        return _ALONE[comes, entry.side]
    partner = change.partners.get((comes, entry.key))
    if not single(change, entry):
        return (_ALONE if partner is entry.side else _DOUBLE)[comes, entry.side]
    table = _APART if partner is None else _RENAMED if partner is entry.side else _SINGLE
    return table[comes, entry.side]


class At(NamedTuple):
    """Where a transition is."""

    phase: Phase
    round: int = 0

    def of(self, number: int) -> Phase:
        """Where something is that changes in another round: as it was before, or as it is afterwards."""
        if self.phase not in ROUND or number == self.round:
            return self.phase
        return Phase.PREPARE if self.round < number else Phase.RELEASE


def course(change: Change) -> tuple[At, ...]:
    """All of a transition in which something changes sides. Raises `EmitError` where there is no order for it."""
    again = (At(phase, number) for number in range(_last(change) + 1) for phase in ROUND)
    return (*map(At, PHASES[:2]), *again, *map(At, PHASES[5:]))


def _last(change: Change) -> int:
    return max(change.rounds.values(), default=0)


def _phase(change: Change, at: At, entry: Entry, *, comes: bool) -> Phase:
    """Where an entry is: in the round of its destination. What copies requests, or sends them on, to a destination at
    which something changes sides goes before all of that, and comes after it."""
    if change.forwards(entry):
        return at.of(_last(change) if comes else 0)
    return at.of(change.rounds.get(entry.decision.destination, 0))


def single(change: Change, entry: Entry) -> bool:
    """Whether route tables decide which requests meet the entry."""
    return change.moves(entry) and entry.decision.destination in change.marked and change.skippable(entry)


def present(change: Change, at: At) -> tuple[Entry, ...]:
    """The entries that are in some ADM's chains."""
    return tuple(
        entry
        for comes, entries in ((False, change.old), (True, change.new))
        for entry in entries.values()
        if _phase(change, at, entry, comes=comes) in when(change, entry, comes=comes).there
    )


HopKey = tuple[str, Side, str, int]
"""Whose ADM, side, destination, port number."""


def toggles(change: Change, at: At, secrets: dict[str, str]) -> dict[HopKey, Toggle]:
    """What route tables say, for each hop with an entry that the marker keeps single."""
    off: dict[HopKey, set[str]] = {}
    met: dict[HopKey, set[str]] = {}
    filters: dict[HopKey, dict[str, tuple[str, ...]]] = {}
    for comes, entries in ((False, change.old), (True, change.new)):
        for entry in entries.values():
            if not single(change, entry):
                continue
            rule, phase = when(change, entry, comes=comes), _phase(change, at, entry, comes=comes)
            # Under either name: a step may call an old version so where it also has a new one.
            names = {entry.policy.name} if comes else {entry.policy.name, entry.policy.name + OLD}
            for key in _keys(change, entry):
                off.setdefault(key, set()).update(names if phase in rule.off else ())
                met.setdefault(key, set()).update(names if phase in rule.met else ())
                called = {name: filter_names(_hop_name(key), replace(entry.policy, name=name)) for name in names}
                filters.setdefault(key, {}).update(called)
    return {
        key: Toggle(
            frozenset(off[key]),
            frozenset(met[key]),
            secrets[key[2]],
            filters[key],
            marks=key[1] is Side.EGRESS and at.of(change.rounds.get(key[2], 0)) in (_SENDERS, _RECEIVERS),
        )
        for key in sorted(off)
    }


def _hop_name(key: HopKey) -> str:
    _, side, destination, port = key
    return hop_name(side, destination, port)


def _keys(change: Change, entry: Entry) -> set[HopKey]:
    """The hops of an entry that carry requests."""
    destination = entry.decision.destination
    found: set[HopKey] = set()
    if entry.side is Side.INGRESS:
        found.update((destination, entry.side, destination, port) for port in entry.ports(change.program))
    else:
        calls = (change.program.calls[index] for index in entry.decision.calls)
        found.update((call.source, entry.side, destination, call.port.number) for call in calls)
    return {key for key in found if change.carries_requests(destination, key[3])}
