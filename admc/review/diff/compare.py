"""Compares two sides: the difference of their plans, with steps, causes and the verdicts on the gates of BASE.

Side, Side -> Diff
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from admc.base.exits import CommandError
from admc.base.terminal import visible
from admc.review.diff.build import difference
from admc.review.diff.model import How, Verdict

if TYPE_CHECKING:
    from admc.review.diff.model import Diff, GateResult
    from admc.review.diff.sides.take import Side
    from admc.review.gates.model import Gate


def compared(
    base: Side,
    head: Side,
    accepted: Mapping[str, str],
    *,
    causes: bool,
    effort: float | None,
    facts: bytes | None = None,
) -> Diff:
    """Compare BASE with HEAD. Raises `CommandError`.

    `accepted`: gate -> the reason for which its breach is accepted. `facts`: the facts about a cluster with which both
    sides were taken.
    """
    # HEAD's gates are read first, and errors in them are refused: with such errors the next change would have no gates.
    later = _gates(head)
    diff = difference(base.plan, head.known, base.taken, head.taken)
    diff = _with_steps(diff, base, head)
    if causes:
        diff = _with_causes(diff, base, head, effort, facts)
    notes = [*base.notes, *diff.notes]
    if base.plan is not None and base.plan.app != diff.app:
        notes.append(f"the app was renamed: `{base.plan.app}` -> `{diff.app}`")
    from admc.review.diff.gates import check_accepted, gate_changes, judge

    gates, why = _gates_of_base(base)
    results = judge(gates, diff, accepted)
    if why is not None:
        notes.append(why)
    elif How.PLAN not in (base.taken.how, head.taken.how):  # a plan may be in another folder than its gates
        notes.extend(gate_changes(gates, later))
    for side in base.further:
        more, why = _gates_of_base(side)
        notes.extend(() if why is None else (why,))
        results += _beside(judge(more, difference(side.plan, head.known, side.taken, head.taken), accepted), side, base)
    check_accepted(accepted, [gate.name for gate in results])
    return replace(diff, gates=results, notes=tuple(notes))


def _beside(results: tuple[GateResult, ...], side: Side, base: Side) -> tuple[GateResult, ...]:
    """The results of the gates of `side`, with paths relative to the folder of BASE instead of that of `side`."""
    own, folder = side.files.path.parent.as_posix(), base.files.path.parent.as_posix()
    return tuple(
        replace(gate, line=replace(gate.line, path=posixpath.relpath(posixpath.join(own, gate.line.path), folder)))
        for gate in results
    )


def fails(diff: Diff) -> bool:
    """Whether the change fails: a gate that may fail is breached, and its breach is not accepted."""
    return any(gate.fails and gate.verdict is Verdict.BREACHED for gate in diff.gates)


def _with_steps(diff: Diff, base: Side, head: Side) -> Diff:
    if base.program is None or base.placement is None or head.program is None or head.placement is None:
        return diff
    from admc.review.diff.steps import steps_of
    from admc.serve.rollout.model import Placed

    steps = steps_of(Placed(base.program, base.placement), Placed(head.program, head.placement))
    return replace(diff, rollout=replace(diff.rollout, steps=steps))


def _with_causes(diff: Diff, base: Side, head: Side, effort: float | None, facts: bytes | None) -> Diff:
    if base.plan is None or not diff.moves:
        return diff
    from admc.review.diff.causes.explain import Sources, with_causes

    sources = None
    if base.program is not None and head.program is not None:
        sources = Sources(base.files.statements(), head.files.statements(), head.files.folder, facts)
    if effort is None:
        return with_causes(diff, base.plan, head.known, sources)
    return with_causes(diff, base.plan, head.known, sources, effort)


def _gates(side: Side) -> tuple[Gate, ...]:
    """The gates beside a program or a plan. Raises `CommandError` for a file of gates with errors."""
    from admc.review.gates.read import gates_beside

    name = side.files.path.name
    if side.plan is not None and side.taken.how is How.PLAN:
        name = side.plan.inputs[0].path
    return gates_beside(name, side.files.reader(), side.files.folder)


def _gates_of_base(base: Side) -> tuple[tuple[Gate, ...], str | None]:
    """The gates of BASE. If they have errors: no gates, and a note about that.

    A change that corrects the errors must not fail because of them.
    """
    try:
        return _gates(base), None
    except CommandError as error:
        first = error.diagnostics[0]
        return (), f"no gate is judged, since the gates of BASE have errors: {visible(first.message)} ({first.code})"
