"""Takes the plans of both sides of a comparison.

    BASE, HEAD -> Side, Side

    the name is                                     the plan is
    a plan                                          this plan
    a program, with a plan beside it that fits      the plan beside it
    another program                                 compiled; HEAD with BASE's decisions as the earlier ones

A plan fits if the server would serve it, and if this version of admc writes the same plan for program and placement.
HEAD is compiled with BASE's decisions so that a policy moves only for a reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import visible
from admc.compile.facts import with_facts
from admc.compile.pipeline import folder_of, overhead_of, place_program
from admc.compile.plan.beside import default_plan_path
from admc.compile.plan.build import build
from admc.compile.plan.previous import previous_of
from admc.compile.reviewed_plan import checked, same_contents
from admc.review.diff.codes import CODES
from admc.review.diff.identity import renames
from admc.review.diff.model import How, Rename, Taken
from admc.review.diff.sides.files import Files
from admc.review.diff.sides.place import one_place, places
from admc.review.diff.sides.predecessors import Known, predecessors
from dsl.collector import no_collection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.compile.pipeline import Progress
    from admc.compile.plan.model import Plan
    from admc.review.diff.sides.place import SidePlace
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from solver.placement import Placement, Previous

_PLAN: Final = ".json"
"""The ending of a plan; a file with any other name is a program."""
_NO_PLAN_BESIDE: Final = "no plan stands beside it"


class Side(NamedTuple):
    """One side of the comparison."""

    taken: Taken
    plan: Plan | None
    """None for a BASE without a plan; `taken` has the reason."""
    program: Program | None
    """None if the side is a plan, or BASE has no valid program."""
    placement: Placement | None
    files: Files
    notes: tuple[str, ...] = ()
    """Notes about a BASE that is not, or not only, the file at the path of HEAD."""
    further: tuple[Side, ...] = ()
    """Further programs of BASE that HEAD continues. Their gates hold, too."""

    @property
    def known(self) -> Plan:
        """The plan of HEAD, which always has one."""
        if self.plan is None:
            raise RuntimeError("a side without a plan is BASE")
        return self.plan

    def on_disk(self) -> tuple[Path, ...]:
        """The files on disk that the side was read from."""
        return self.files.on_disk(self.program)


class Options(NamedTuple):
    """How programs are read and compiled."""

    include: Sequence[Path] = ()
    effort: float | None = None
    progress: Progress | None = None
    facts: bytes | None = None
    """Facts about the services in a cluster, for programs. A plan has the facts with which it was compiled."""


@no_collection()
def sides(base: str, head: str, options: Options, *, merge_base: bool = False) -> tuple[Side, Side]:
    """The two sides that the command line names. Raises `CommandError`: exit 1, or 3 for an infeasible HEAD."""
    places_ = places(base, head, merge_base=merge_base)
    taker = _Taker(places_[1], options)
    before = _base(*places_, taker.known, options)
    after = taker.side(before.plan)
    if before.plan is not None:
        renamed = renames(before.plan, after.known)
        if renamed and after.taken.how is How.COMPILED and after.program is not None:
            # Which policies were renamed is known only now, so HEAD is compiled again with their earlier decisions.
            after = taker.compiled(after.program, before.plan, after.taken.why, renamed)
    _same_app(before, after)
    return before, after


def _base(base: SidePlace, head: SidePlace, known: Callable[[], Known], options: Options) -> Side:
    """The side BASE: the path that the command line chose, or the programs that HEAD continues.

    `known` returns the app and the services of HEAD.
    """
    side = _Taker(base, options).base(head)
    if base.tree is None or not _implied(base, head):
        return side
    before = None if side.plan is None else _known(side.plan)
    continued = predecessors(base, before, head, known(), options.include)
    further = tuple(
        _Taker(base._replace(path=Path(predecessor.path)), options).base(head) for predecessor in continued.further
    )
    notes = tuple(
        f"the gates of `{visible(predecessor.path)}` in BASE, {predecessor.why}, hold, too"
        for predecessor in continued.further
    )
    if continued.other_side is not None:
        path, why = continued.other_side
        side = _Taker(base._replace(path=Path(path)), options).base(head)
        notes = (f"compared with `{visible(path)}`, {why}", *notes)
    return side._replace(notes=notes, further=further)


def _known(plan: Plan) -> Known:
    return Known(plan.app, frozenset(row.name for row in plan.services))


def _implied(base: SidePlace, head: SidePlace) -> bool:
    """Whether the command line names no path of its own for BASE."""
    return base.implied or base.path == head.path


@no_collection()
def side(name: str, options: Options) -> Side:
    """A single side, taken like HEAD. Raises `CommandError`: exit 1, or 3 if there is no correct placement."""
    return _Taker(one_place(name), options).side(None)


def _same_app(before: Side, after: Side) -> None:
    """Raise `CommandError` if a side is a plan of another application. A program may rename its application."""
    if before.plan is None or after.plan is None or before.plan.app == after.plan.app:
        return
    if before.program is None or after.program is None:
        raise wrong_usage(
            "ADM838",
            f"BASE is of the app `{before.plan.app}`, and HEAD of `{after.plan.app}`",
            cause="policies of two applications have nothing in common but names",
            hint="name two plans of one application",
        )


class _Taker:
    def __init__(self, place: SidePlace, options: Options) -> None:
        self._place = place
        self._options = options
        self._files = Files(place, options.include)
        self._is_plan = place.path.suffix == _PLAN

    def base(self, head: SidePlace) -> Side:
        """The side BASE, which may lack the program or have a program with errors."""
        if self._files.missing() and _implied(self._place, head):
            return Side(self._taken(How.NOTHING, None), None, None, None, self._files)
        if self._is_plan or not self._files.readable():
            return self.side(None)
        try:
            return self.side(None)
        except CommandError as error:
            first = error.diagnostics[0]
            if error.exit_code not in (Exit.INPUT, Exit.NO_PLACEMENT) or first.code in CODES:
                raise
            return Side(self._taken(How.BROKEN, _why_broken(first)), None, None, None, self._files)

    def side(self, previous: Plan | None) -> Side:
        if self._is_plan:
            plan = self._plan
            return Side(self._taken(How.PLAN, None, plan), plan, None, None, self._files)
        program = self._program
        try:
            plan, placement = self._beside(program)
        except CommandError as error:
            return self.compiled(program, previous, _why_compiled(error))
        return Side(self._taken(How.BESIDE, None, plan), plan, program, placement, self._files)

    def known(self) -> Known:
        """The app and the services, without compiling the program. Raises `CommandError`."""
        if self._is_plan:
            return _known(self._plan)
        return Known(self._program.app, frozenset(self._program.services))

    @cached_property
    def _plan(self) -> Plan:
        return self._files.plan(self.path)

    @cached_property
    def _program(self) -> Program:
        program, facts = self._files.program(), self._options.facts
        return program if facts is None else with_facts(program, facts)

    @property
    def path(self) -> Path:
        return self._files.path

    def _beside(self, program: Program) -> tuple[Plan, Placement]:
        """The plan beside the program, if it fits. Raises `CommandError`."""
        path = default_plan_path(self.path)
        if not self._files.has(path):
            raise wrong_usage("ADM838", _NO_PLAN_BESIDE)
        plan = self._files.plan(path)
        placement = checked(path, plan, program)
        anew = build(program, placement, overhead_of(program, placement, folder_of(self.path)))
        same_contents(path, plan, anew)
        if _costs(plan) != _costs(anew):
            raise wrong_usage("ADM838", "this admc estimates other costs than the plan beside it has")
        return plan, placement

    def compiled(
        self, program: Program, previous: Plan | None, why: str | None, renamed: Iterable[Rename] = ()
    ) -> Side:
        options = self._options
        earlier = None if previous is None else _renamed(previous_of(previous, program), renamed)
        try:
            placement, _seconds = place_program(
                program, folder_of(self.path), previous=earlier, effort=options.effort, progress=options.progress
            )
        except CommandError as error:
            raise CommandError(error.exit_code, error.diagnostics, self._files.folder) from error
        plan = build(program, placement, overhead_of(program, placement, folder_of(self.path)))
        return Side(self._taken(How.COMPILED, why, plan), plan, program, placement, self._files)

    def _taken(self, how: How, why: str | None, plan: Plan | None = None) -> Taken:
        tree = self._place.tree
        return Taken(
            self._place.name,
            self.path.as_posix(),
            None if tree is None else tree.commit,
            how,
            why,
            None if plan is None else plan.schema_version,
            None if plan is None else _inputs_digest(plan),
        )


def _renamed(previous: Previous, renamed: Iterable[Rename]) -> Previous:
    new = {rename.base: rename.head for rename in renamed}
    return previous._replace(
        places={
            (new.get(policy, policy), destination): place for (policy, destination), place in previous.places.items()
        }
    )


def _costs(plan: Plan) -> tuple[object, ...]:
    return plan.profile, plan.overhead, tuple(adm.overhead for adm in plan.adms)


def _inputs_digest(plan: Plan) -> str:
    listed = "".join(f"{file.path}\0{file.sha256}\0" for file in sorted(plan.inputs))
    return hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()


def _why_broken(first: Diagnostic) -> str:
    where = "" if first.span is None else f"{first.span.source.path}:{first.span.line}: "
    return f"{where}{first.message} ({first.code})"


def _why_compiled(error: CommandError) -> str:
    first = error.diagnostics[0]
    return first.message if first.cause is None else f"{first.message}: {first.cause}"
