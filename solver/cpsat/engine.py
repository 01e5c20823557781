"""The only module that calls CP-SAT: linear programs over booleans, solved level by level.

One worker, a fixed seed and a deterministic time limit make the answer a function of the input. The import of OR-Tools
takes about half a second, so it happens only when a problem has to be solved.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

DEFAULT_EFFORT = 4.0
"""Deterministic time for one placement; a unit is one to four seconds of one core."""

NOTICED = 0.1
"""Seconds between checks for an interruption: on some systems a signal does not wake a waiting thread."""

SMALLEST_SHARE = 0.05
"""The least share of effort for one search, so that each of a thousand small searches ends with an answer."""

LARGEST_SUM = (1 << 61) - 1
"""The largest sum of weights that fits into the whole numbers of CP-SAT and of the maximum flow."""

Terms = Sequence[tuple[int, int]]
"""(variable, coefficient) pairs."""


class Level(NamedTuple):
    """One objective: minimise `constant` plus the sum of `terms`."""

    terms: Terms
    constant: int = 0
    least: int | None = None
    """A lower bound that another method has proven."""


@dataclass(frozen=True)
class Booleans:
    """A problem over `count` booleans. A literal is `v + 1` for variable `v`, negative where negated."""

    count: int
    clauses: Sequence[tuple[int, ...]]
    limits: Sequence[tuple[Terms, int]] = ()
    """Sums that must not exceed a bound."""
    levels: Sequence[Level] = ()
    """Objectives, the first the most important."""
    ties: Sequence[Terms] = ()
    """Further objectives that choose among equal solutions. Their values are not reported."""
    hint: Sequence[bool] | None = None


class Bounded(NamedTuple):
    value: int
    bound: int


class Answer(NamedTuple):
    """Values of the variables, or None if no values satisfy the problem."""

    values: list[bool] | None
    levels: tuple[Bounded, ...] = ()
    proven: bool = True


@dataclass
class Effort:
    """The remaining deterministic time for a whole placement. Searches get shares in proportion to their sizes."""

    left: float = DEFAULT_EFFORT
    work: int = 0
    """The sum of the sizes of all unsolved problems."""
    spent: float = field(default=0.0)

    def share(self, size: int) -> float:
        part = self.left * size / max(self.work, size, 1)
        return max(part, SMALLEST_SHARE)

    def pay(self, time: float) -> None:
        self.spent += time
        self.left = max(0.0, self.left - time)


def solve(problem: Booleans, effort: Effort) -> Answer:
    """Return the lexicographically best values of `problem` that the search reaches within `effort`.

    The effort limits the search for better values only, and not that for the first ones.
    """
    from ortools.sat.python import cp_model

    limit = effort.share(problem.count)
    effort.work -= problem.count
    model = cp_model.CpModel()
    variables = [model.new_bool_var("") for _ in range(problem.count)]
    for clause in problem.clauses:
        model.add_bool_or([variables[abs(x) - 1] if x > 0 else ~variables[abs(x) - 1] for x in clause])
    for terms, bound in problem.limits:
        _add_limit(model, variables, terms, bound)
    values = list(problem.hint) if problem.hint is not None and _satisfies(problem, problem.hint) else None
    if values is None:
        # Feasibility is searched for without a limit; only the search for better values is limited.
        solver = _solver(None)
        status = _run(solver, model)
        effort.pay(solver.response_proto.deterministic_time)
        if status == cp_model.INFEASIBLE:
            return Answer(None)
        values = [bool(solver.value(variable)) for variable in variables]
    bounded: list[Bounded] = []
    proven = True
    for level in (*problem.levels, *(Level(terms) for terms in problem.ties)):
        best = level.constant + _value(level.terms, values)
        bound = level.constant + sum(coefficient for _, coefficient in level.terms if coefficient < 0)
        if level.least is not None and proven:
            bound = max(bound, level.least)
        fits = sum(abs(coefficient) for _, coefficient in level.terms) <= LARGEST_SUM
        if best > bound and proven and limit > 0 and fits:
            model.clear_hints()  # type: ignore[no-untyped-call]
            for variable, value in zip(variables, values, strict=True):
                model.add_hint(variable, value)
            model.minimize(_sum(variables, level.terms))
            solver = _solver(limit)
            status = _run(solver, model)
            used = solver.response_proto.deterministic_time
            effort.pay(used)
            limit -= used
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                values = [bool(solver.value(variable)) for variable in variables]
                best = level.constant + _value(level.terms, values)
                bound = max(bound, level.constant + _ceiling(solver.best_objective_bound))
                if status == cp_model.OPTIMAL:
                    bound = best
        bounded.append(Bounded(best, min(bound, best)))
        # Without the constraint of a level, the levels below it cannot be searched.
        proven = proven and bound >= best and fits
        if fits:
            model.add(_sum(variables, level.terms) <= best - level.constant)
    levels = tuple(bounded[: len(problem.levels)])
    return Answer(values, levels, all(level.value == level.bound for level in levels))


def _solver(limit: float | None) -> cp_model.CpSolver:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    # Otherwise CP-SAT treats Ctrl-C as the end of its time, and answers with the best solution so far.
    solver.parameters.catch_sigint_signal = False
    # Cuts prove covers optimal: by measurement, this level solves kernels that the default level does not.
    solver.parameters.linearization_level = 2
    if limit is not None:
        solver.parameters.max_deterministic_time = limit
    return solver


def _run(solver: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """Solve in another thread, so that an interruption of this thread stops the search and is raised."""
    answer: Future[cp_model.CpSolverStatus] = Future()
    begun, unwanted = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            if unwanted.is_set():
                answer.cancel()
            else:
                answer.set_result(solver.solve(model))
        except BaseException as error:
            answer.set_exception(error)

    thread = threading.Thread(target=work, name="cp-sat", daemon=True)
    # An interrupted `Thread.join` treats the thread as finished (Python 3.11), so this waits for the answer instead. An
    # interrupted `Thread.start` may have started the thread: `unwanted` keeps it from solving, and `begun` shows it.
    try:
        thread.start()
        while not answer.done():
            wait([answer], NOTICED)
    finally:
        unwanted.set()
        # CP-SAT ignores a stop that arrives before the search begins, so the stop is repeated.
        while begun.is_set() and not answer.done():
            solver.stop_search()
            wait([answer], NOTICED)
    return answer.result()


def _sum(variables: Sequence[cp_model.IntVar], terms: Terms) -> cp_model.LinearExpr:
    from ortools.sat.python import cp_model

    expression: cp_model.LinearExpr = cp_model.LinearExpr.weighted_sum(
        [variables[at] for at, _ in terms], [coefficient for _, coefficient in terms]
    )
    return expression


def _add_limit(model: cp_model.CpModel, variables: Sequence[cp_model.IntVar], terms: Terms, bound: int) -> None:
    """Add a sum that must not exceed a bound. The loads of some profiles exceed the whole numbers of CP-SAT."""
    from ortools.sat.python import cp_model

    if sum(abs(coefficient) for _, coefficient in terms) + abs(bound) <= LARGEST_SUM:
        model.add(_sum(variables, terms) <= bound)
        return
    weights: dict[int, int] = {}
    for at, coefficient in terms:
        weights[at] = weights.get(at, 0) + coefficient
    # A negative weight is a positive weight of the negated variable. A weight above the room excludes its literal.
    room = bound - sum(weight for weight in weights.values() if weight < 0)
    if room < 0:
        model.add_bool_or([])
        return
    literals = [variables[at] if weight > 0 else ~variables[at] for at, weight in weights.items()]
    least = [min(abs(weight), room + 1) for weight in weights.values()]
    # Loads beyond the range are rounded up. The limit then holds, and is too strict by at most a billionth.
    unit = -(-(sum(least) + room) // LARGEST_SUM)
    model.add(cp_model.LinearExpr.weighted_sum(literals, [-(-weight // unit) for weight in least]) <= room // unit)


def _ceiling(bound: float) -> int:
    """CP-SAT's bound, a float, as an integer: rounded up, except for a rounding error above an integer."""
    down = int(bound // 1)
    return down if bound - down < 1e-6 else down + 1


def _value(terms: Terms, values: Sequence[bool]) -> int:
    return sum(coefficient for at, coefficient in terms if values[at])


def _satisfies(problem: Booleans, values: Sequence[bool]) -> bool:
    return all(any(values[abs(x) - 1] is (x > 0) for x in clause) for clause in problem.clauses) and all(
        _value(terms, values) <= bound for terms, bound in problem.limits
    )
