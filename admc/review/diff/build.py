"""The difference of two plans.

    plan, plan -> Diff

A pure function: the same two plans give the same difference. Causes, steps and gates need more than the plans;
`compare` adds them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admc.review.diff import cost, placement, program
from admc.review.diff.identity import renames
from admc.review.diff.model import SCHEMA_VERSION, Diff, How, Taken
from admc.review.diff.names import Names
from admc.review.diff.parties import renamed_parties
from admc.review.diff.protection import findings
from admc.review.diff.rollout import NOTHING_TO_DO, rollout
from dsl.collector import no_collection

if TYPE_CHECKING:
    from admc.compile.plan.model import Plan

NEW: Final = "BASE has no such program: all of it is new"
NOT_COMPARED: Final = "BASE has no plan to compare with, so what gets weaker is not known"


@no_collection()
def difference(base: Plan | None, head: Plan, base_taken: Taken, head_taken: Taken) -> Diff:
    """The difference from BASE to HEAD. Without a plan of BASE, `base` is None and `base_taken.how` is the reason."""
    if base is None:
        return _without_base(head, base_taken, head_taken)
    renamed = renames(base, head)
    names = Names(renamed)
    protection = findings(base, head, renamed)
    services = {row.name for row in head.services}
    return Diff(
        schema_version=SCHEMA_VERSION,
        app=head.app,
        base=base_taken,
        head=head_taken,
        base_counts=placement.counts(base),
        head_counts=placement.counts(head),
        weaker=protection.weaker,
        stricter=protection.stricter,
        gone=protection.gone,
        renames=renamed,
        adms=placement.adm_changes(base, head, names),
        moves=placement.moves(base, head, names),
        rollout=rollout(base, head),
        levels=placement.levels(base, head),
        gap=placement.gap(base, head),
        cost=cost.cost(base, head, new=False),
        program=program.changes(base, head, names),
        gates=(),
        notes=tuple(
            f"`{old}` is `{new}` now, since it has the same {'pods' if new in services else 'addresses'}"
            for old, new in sorted(renamed_parties(base, head).items())
        ),
    )


def changes_anything(diff: Diff) -> bool:
    """Whether HEAD is known to differ from BASE. Other lines, comments and digests are no difference."""
    steps = replace(diff.rollout, steps=None)
    return (
        diff.base.how in (How.NOTHING, How.BROKEN)
        or any((diff.weaker, diff.stricter, diff.gone, diff.renames, diff.adms, diff.moves, diff.program))
        or steps != NOTHING_TO_DO
        or any(level.base != level.head for level in diff.levels)
    )


def _without_base(head: Plan, base_taken: Taken, head_taken: Taken) -> Diff:
    """The difference without a plan of BASE: a new program is new as a whole, a broken BASE is not compared."""
    new = base_taken.how is How.NOTHING
    nothing = replace(
        head, services=(), externals=(), calls=(), policies=(), adms=(), enforcements=(), decisions=(), closed=()
    )
    names = Names(())
    return Diff(
        schema_version=SCHEMA_VERSION,
        app=head.app,
        base=base_taken,
        head=head_taken,
        base_counts=placement.counts(None),
        head_counts=placement.counts(head),
        weaker=(),
        stricter=(),
        gone=(),
        renames=(),
        adms=placement.adm_changes(nothing, head, names) if new else (),
        moves=(),
        # The services of a new program may already run, without ADMs: their pods restart.
        rollout=rollout(replace(nothing, services=head.services), head) if new else NOTHING_TO_DO,
        levels=placement.levels(None, head),
        gap=placement.gap(None, head),
        cost=cost.cost(None, head, new=new),
        program=program.changes(nothing, head, names) if new else (),
        gates=(),
        notes=(NEW,) if new else (f"{NOT_COMPARED}: {base_taken.why}",),
    )
