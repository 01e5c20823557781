"""What a rollout does, and what it cannot keep single, in sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.serve.rollout.diff import Diff
    from admc.serve.rollout.model import Port


def reasons(diff: Diff, late: Iterable[str]) -> tuple[str, ...]:
    """Sentences about all steps, in canonical order. `late`: destinations that change with the new plan only."""
    found = [
        sentence
        for port in sorted(diff.moving)
        for sentence in (*_moves(diff, port, Side.INGRESS), *_moves(diff, port, Side.EGRESS), *_stays(diff, port))
    ]
    found += [
        f"policies of calls to `{name}` change with the new plan: ADMs begin to send requests of their own for them"
        for name in sorted(late)
    ]
    return tuple(dict.fromkeys(found))


def _moves(diff: Diff, port: Port, left: Side) -> Iterator[str]:
    for pair in diff.pairs(port, left):
        if pair.old.name != pair.new.name:
            continue
        name = pair.new.name
        yield f"`{name}` moves from {_where(left, port[0])} to {_where(left.other, port[0])}"
        if pair.new.kind.state:
            yield (
                f"`{name}` starts with a full bucket at its new side: what one bucket has counted cannot be handed to "
                "another"
            )
        if not diff.carries_requests(port) and not pair.new.kind.guard:
            yield (
                f"connections to `{port[0]}` that are made while both sides hold `{name}` meet it twice: no marker can "
                "say that they have met it"
            )


def _stays(diff: Diff, port: Port) -> Iterator[str]:
    """Limits that stay where they are, in chains that change."""
    for key in diff.ends(port) if diff.carries_requests(port) else ():
        before = {policy.name for policy in diff.frame.policies(0, key)}
        for policy in diff.frame.policies(1, key):
            if policy.kind.state and policy.name in before:
                yield f"`{policy.name}` has a second bucket while policies move at {_where(key.side, port[0])}"


def _where(side: Side, destination: str) -> str:
    return f"the ingress of `{destination}`" if side is Side.INGRESS else f"the egress of all that call `{destination}`"
