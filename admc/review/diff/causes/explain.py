"""Adds a cause to each move: a rule that came or went, or changes of the program.

    Diff, two plans, two programs -> Diff with causes

The plans contain the rules that exclude sides. Where no rule excludes either side, the objective chose the side. Then
programs between BASE and HEAD are solved, to find the changes without which the decision keeps its side. `effort`
bounds the number of these programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from admc.base.exits import CommandError
from admc.compile.facts import with_facts
from admc.compile.pipeline import solve
from admc.compile.plan.model import FREE, DecisionPlan, Plan, SourceLine
from admc.compile.plan.previous import places_of
from admc.review.diff.causes.elements import ORDER, Change, Element, Elements, Key, changes, elements_of, hybrid
from admc.review.diff.causes.search import BudgetSpentError, irreducible
from admc.review.diff.model import Cause, Diff, How, Move
from dsl.diagnostics.diagnostic import ProgramError
from dsl.loader import Statements
from dsl.program import Place
from dsl.words import few
from solver.placement import PlacementError, Previous

WORK: Final = 200_000
"""The statements and enforcements of all programs that are solved with an effort of 1.

That is enough for seven programs of 10,000 services.
"""
MOST_SOLVED: Final = 300
SHOWN: Final = 6
"""The changes that the text of one cause names."""

Places = Mapping[tuple[str, str], Place]


class Sources(NamedTuple):
    """Both programs. Messages show `folder`, the folder of HEAD's program."""

    base: Statements
    head: Statements
    folder: str = ""
    facts: bytes | None = None
    """The facts about the services in a cluster, for both programs."""


def with_causes(diff: Diff, base: Plan, head: Plan, sources: Sources | None, effort: float = 1.0) -> Diff:
    """The difference with a cause for each move. Without the programs, only rules are found as causes."""
    search = None if sources is None else _Search(base, head, diff, sources, effort)
    decided = [
        {(decision.policy, decision.destination): decision for decision in plan.decisions} for plan in (base, head)
    ]
    old_names = {rename.head: rename.base for rename in diff.renames}
    moves = []
    for move in diff.moves:
        before = decided[0].get((old_names.get(move.policy, move.policy), move.destination))
        after = decided[1].get((move.policy, move.destination))
        cause = _rule(after, "came") or (None if search is None else search.needless(move)) or _rule(before, "went")
        if cause is None and search is not None:
            cause = search.cause(move)
        moves.append(replace(move, cause=cause))
    return replace(diff, moves=tuple(moves))


# ---- rules ----


def _rule(decision: DecisionPlan | None, verb: str) -> Cause | None:
    """The rule that excludes the places that a decision does not take, if a rule does.

    With HEAD's decision the rule `came` and excludes BASE's place; with BASE's decision it `went`.
    """
    for refused in () if decision is None else decision.not_taken:
        if refused.reason != FREE:
            what = f": {refused.message}" if refused.message else ""
            text = f"rule {refused.reason} {verb}{what}"
            return Cause(text, refused.lines, True, ()) if verb == "came" else Cause(text, (), True, refused.lines)
    return None


# ---- changes ----


@dataclass
class _Search:
    base: Plan
    head: Plan
    diff: Diff
    sources: Sources
    effort: float
    _solved: dict[frozenset[Key], Places | None] = field(default_factory=dict)
    _work: int = 0
    _minimal: list[tuple[Change, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before: Elements = elements_of(self.sources.base)
        self._after: Elements = elements_of(self.sources.head)
        self.changes = changes(self._before, self._after)
        self._names = {rename.head: rename.base for rename in self.diff.renames}
        places = places_of(self.base)
        renamed = {rename.base: rename.head for rename in self.diff.renames}
        # A program between the two may have the old or the new name of a renamed policy.
        places |= {(renamed[name], there): place for (name, there), place in places.items() if name in renamed}
        self._previous = Previous(places, frozenset(adm.service for adm in self.base.adms))

    def needless(self, move: Move) -> Cause | None:
        """A cause that calls the move needless, if HEAD solved with BASE as `--previous` does not move the decision."""
        if not self.changes:
            return Cause(self._without_changes(), (), True, ())
        try:
            return None if self._moves(move, self.changes) else Cause(_NEEDLESS, (), True, ())
        except BudgetSpentError:
            return None

    def cause(self, move: Move) -> Cause:
        # The cause of an earlier move is often also the cause of this move, and is a small set to start from.
        start = next((earlier for earlier in self._minimal if self._known_to_move(move, earlier)), self.changes)
        minimal, complete = irreducible(start, lambda subset: self._moves(move, subset))
        self._minimal.append(minimal)
        return _cause(minimal, complete=complete)

    def _without_changes(self) -> str:
        if self.base.solver.version != self.head.solver.version:
            return "another version of admc's solver placed the same program"
        return "the same program was placed anew: the earlier placement was not the best, or `--previous` was not given"

    def _known_to_move(self, move: Move, subset: tuple[Change, ...]) -> bool:
        try:
            return self._moves(move, subset)
        except BudgetSpentError:
            return False

    def _moves(self, move: Move, subset: Sequence[Change]) -> bool:
        """Whether BASE with only these changes gives the decision the place that it has in HEAD."""
        places = self._places(frozenset(change.key for change in subset))
        if places is None:
            return False
        name, destination = move.policy, move.destination
        place = places.get((name, destination)) or places.get((self._names.get(name, name), destination))
        return place is move.head_place

    def _places(self, applied: frozenset[Key]) -> Places | None:
        """The decisions of BASE with the applied changes, solved with BASE's plan as `--previous`.

        None if the program has errors or no placement.
        """
        if applied not in self._solved:
            self._solved[applied] = self._compiled(applied)
        return self._solved[applied]

    def _compiled(self, applied: frozenset[Key]) -> Places | None:
        everything = len(applied) == len(self.changes)
        if everything and self.diff.head.how is How.COMPILED:
            return places_of(self.head)  # HEAD was compiled with BASE's plan as `--previous`
        cost = len(self.sources.head.statements) + len(self.head.enforcements)
        if self._work + cost > WORK * self.effort or len(self._solved) >= MOST_SOLVED:
            raise BudgetSpentError
        self._work += cost
        try:
            program = hybrid(self._before, self._after, {change.key for change in self.changes}, applied)
            if self.sources.facts is not None:
                program = with_facts(program, self.sources.facts)
            placement, _costs = solve(program, self.sources.folder, previous=self._previous)
        except (ProgramError, PlacementError, CommandError):
            # Some changes are valid only together: a call needs its service. An invalid program shows no move.
            return None
        return {(decision.policy, decision.destination): decision.place for decision in placement.decisions}


_NEEDLESS: Final = "HEAD was not compiled with BASE's plan as `--previous`: the move buys nothing"


def _cause(candidates: Sequence[Change], *, complete: bool) -> Cause:
    listed = few([f"{_name(change.key)} {change.verb}" for change in candidates], SHOWN)
    text = listed if complete else f"one of these {len(candidates)}, or several: {listed}"
    head = _lines(change.head for change in candidates)
    base = _lines(change.base for change in candidates if change.head is None)
    return Cause(text, head, complete, base)


def _lines(elements: Iterable[Element | None]) -> tuple[SourceLine, ...]:
    spans = [element.span for element in elements if element is not None]
    return tuple(SourceLine(span.source.path, span.line) for span in spans)


def _name(key: Key) -> str:
    word, name = key
    if key == ORDER:
        return "the order of policies"
    return f"{word} `{name}`" if name else f"the {word}"
