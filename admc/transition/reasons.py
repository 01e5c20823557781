"""What a transition does, and what it cannot keep single, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.transition.change import acts_once
from admc.transition.model import Phase
from admc.transition.schedule import single
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.transition.asks import First
    from admc.transition.change import Change, Entry
    from admc.transition.schedule import At


def reasons(change: Change, at: At) -> tuple[str, ...]:
    """Sentences about one step, in canonical order."""
    crossing = [entry for entry in (*change.coming, *change.leaving) if entry.decision.destination in change.crossing]
    if at.phase is Phase.PREPARE:
        found = [
            *_moves(change),
            *(_doubled(change, entry) for entry in crossing if _twice(change, entry)),
            *_buckets(crossing),
        ]
    elif at.phase is Phase.RELEASE:
        found = [_after(first) for first in change.firsts if change.rounds.get(first.before, 0) == at.round]
    elif at.phase is Phase.FINAL:
        found = ["connections that are older than this step are closed before what they need is taken away"]
    else:
        found = []
    return tuple(dict.fromkeys(found))


def _moves(change: Change) -> Iterable[str]:
    left = {entry.key: entry for entry in change.leaving}
    for entry in change.coming:
        name, destination = entry.policy.name, entry.decision.destination
        before = left.get((name, destination, entry.side.other))
        if before is not None:
            marked = single(change, before) and single(change, entry)
            how = "by a marker that senders set" if marked else "since meeting it twice changes nothing"
            how = how if marked or not acts_once(entry.policy) else ""
            kept = f"; it stays single {how}" if how else ""
            yield f"`{name}` moves from {_where(before.side, destination)} to {_where(entry.side, destination)}{kept}"


def _after(first: First) -> str:
    name, helper = first.entry.policy.name, first.helper
    why = "what an ADM asks by itself carries no marker"
    if first.stops:
        return (
            f"what leaves the ingress of `{helper}` holds there until connections are closed on which `{first.asker}` "
            f"may still ask it for `{name}`: {why}"
        )
    return f"`{first.asker}` asks `{helper}` for `{name}` once what comes to the ingress of `{helper}` is there: {why}"


def _where(side: Side, destination: str) -> str:
    return f"the ingress of `{destination}`" if side is Side.INGRESS else f"the egress of all that call `{destination}`"


def _twice(change: Change, entry: Entry) -> bool:
    moves = len(entry.policy.kind.sides) > 1
    return moves and acts_once(entry.policy) and not (single(change, entry) and not _connections(change, entry))


def _connections(change: Change, entry: Entry) -> bool:
    """Whether some of its ports see connections only."""
    numbers = entry.ports(change.program)
    return not all(change.carries_requests(entry.decision.destination, number) for number in numbers)


def _doubled(change: Change, entry: Entry) -> str:
    what = "connections" if _connections(change, entry) else "requests"
    return (
        f"{what} to `{entry.decision.destination}` that are made while both sides hold `{entry.policy.name}` meet it "
        "twice: no marker can say that they have met it"
    )


def _buckets(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        if entry.policy.kind.state:
            yield (
                f"`{entry.policy.name}` starts with a full bucket at its new side: what one bucket has counted cannot "
                "be handed to another"
            )
