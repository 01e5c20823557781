"""What HEAD does to the gates. They are judged from the merge on, so no verdict of this change shows it."""

from __future__ import annotations

from admc.review.gates.model import Gate


def gate_changes(base: tuple[Gate, ...], head: tuple[Gate, ...]) -> tuple[str, ...]:
    """A sentence for each gate that goes, changes or comes, in the order of the names. A limit that is written in
    another way is no change."""
    before, after = ({gate.name: gate for gate in gates} for gates in (base, head))
    found = [_sentence(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())]
    return tuple(sentence for sentence in found if sentence is not None)


def _sentence(name: str, old: Gate | None, new: Gate | None) -> str | None:
    if old is None:
        return None if new is None else f"the gate `{name}` holds from the merge on: `{_text(new)}`"
    if new is None:
        return f"the gate `{name}` no longer holds from the merge on, since HEAD lacks it: `{_text(old)}`"
    if _meaning(old) == _meaning(new):
        return None
    return f"the gate `{name}` changes with the merge: `{_text(old)}` -> `{_text(new)}`"


def _text(gate: Gate) -> str:
    return f"{'fail' if gate.fails else 'warn'} when {gate.condition}"


def _meaning(gate: Gate) -> tuple[object, ...]:
    limit = gate.limit
    return gate.fails, gate.measure, None if limit is None else (limit.value, limit.added, limit.percent)
