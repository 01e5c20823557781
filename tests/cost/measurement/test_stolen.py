"""The time that the host takes away from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admc.cost.measurement import measured
from admc.cost.measurement.stolen import Ticks, disturbance
from admc.cost.profile_import.calm import UNDISTURBED

STAT = "cpu  100 2 30 800 5 0 3 60 7 0\ncpu0 50 1 15 400 2 0 1 30 3 0\nintr 1\n"


def test_stolen_time_is_a_part_of_the_time_of_all_cores() -> None:
    """Guests are counted in the first columns already."""
    before = Ticks.read(STAT)
    assert before == Ticks(1000, 60)
    after = Ticks.read(STAT.replace("800", "1600").replace(" 60 ", " 260 "))
    assert after.share_since(before) == pytest.approx(0.2)
    assert before.share_since(before) == 0.0
    assert Ticks(100, 50).share_since(Ticks(90, 20)) == 1.0  # counters of the kernel may run back
    assert Ticks(100, 10).share_since(Ticks(90, 20)) == 0.0
    now = Ticks.now()
    assert 0 <= now.stolen < now.all


def test_a_note_says_how_much_it_was() -> None:
    assert disturbance(0.0) is None
    assert disturbance(UNDISTURBED) is None
    said = disturbance(0.0416)
    assert said is not None
    assert "took 4.2% of the time of all cores away from this machine" in said


def test_a_measurement_says_how_much_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host can be made to take time away."""

    @contextmanager
    def nothing(_: object) -> Iterator[Iterator[Any]]:
        yield iter(())

    ticks = iter((Ticks(1_000, 10), Ticks(2_000, 60)))
    monkeypatch.setattr(Ticks, "now", lambda: next(ticks))
    monkeypatch.setattr(measured, "started", nothing)
    task: Any = None
    assert list(measured._run(task, print).notes) == [disturbance(0.05)]
