"""An interruption of a search gives neither a premature answer nor a long wait."""

from __future__ import annotations

import random
import signal
import threading

import pytest
from ortools.sat.python import cp_model

from solver.cpsat import engine
from solver.cpsat.engine import Booleans, Effort, Level, solve


def hard(count: int) -> Booleans:
    """The smallest cover of a random graph that takes CP-SAT for ever to prove."""
    chance = random.Random(5)  # noqa: S311
    edges = {tuple(sorted(chance.sample(range(1, count + 1), 2))) for _ in range(3 * count)}
    return Booleans(
        count, sorted(edges), levels=[Level([(at, 1) for at in range(count)])], hint=[True for _ in range(count)]
    )


def test_ctrl_c_ends_a_search_and_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, ended = threading.Event(), threading.Event()
    original = cp_model.CpSolver.solve

    def watched(solver: cp_model.CpSolver, model: cp_model.CpModel) -> object:
        searches.set()
        try:
            return original(solver, model)
        finally:
            ended.set()

    monkeypatch.setattr(cp_model.CpSolver, "solve", watched)

    def interrupt() -> None:
        searches.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        solve(hard(500), Effort(1e6))
    killer.join()
    assert ended.is_set()


def test_what_goes_wrong_in_a_search_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cp_model.CpSolver, "solve", broken)
    with pytest.raises(MemoryError):
        solve(hard(20), Effort(1.0))


def test_cp_sat_leaves_signals_alone() -> None:
    assert not engine._solver(None).parameters.catch_sigint_signal
