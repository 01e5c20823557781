"""The benchmark of the cluster itself works, at a small size; no test judges its figures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tests.bench.cluster.figures import Figures, Step
from tests.bench.cluster.report import percentile, show
from tests.bench.cluster.suite import TINY, cluster
from tests.bench.errors import SkippedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.cluster
def test_a_small_cluster_is_measured_from_the_first_plan_to_replaced_pods(tmp_path: Path) -> None:
    output = io.StringIO()
    try:
        found = cluster(Console(file=output, width=140), tmp_path, TINY, runs=1, minutes=0.1, rates=(5.0,))
    except SkippedError as error:
        pytest.skip(str(error))
    assert not found.problem, output.getvalue()
    assert found.ended_in_sync
    assert found.programmed.startswith("True"), output.getvalue()
    (start,), (takeover,) = found.starts, found.takeovers
    assert 0 < start.ready < start.read < start.in_force
    assert 0 < takeover.active < takeover.in_sync
    assert found.long is not None
    assert found.long.seconds
    # The two steps replace 30 pods each. An address that no proxy needs may come after its own step was counted.
    assert len(found.steps) == 1
    assert sum(len(step.seconds) + step.unused for step in (*found.steps, found.long)) <= 60
    for words in ("takeover", "p99", "the server", "kube-apiserver"):
        assert words in output.getvalue()


def test_a_run_that_ended_early_shows_what_it_has() -> None:
    output = io.StringIO()
    figures = Figures(steps=[Step(10, 10, [0.5], 1, 0)], problem="EndedError: replica-1 has ended")
    show(Console(file=output, width=140), figures, TINY)
    assert "it ended early: EndedError: replica-1 has ended" in output.getvalue()
    assert "0.500" in output.getvalue()


def test_a_percentile_is_a_value_that_was_there() -> None:
    values = [float(value) for value in range(1, 201)]
    assert [percentile(values, percent) for percent in (0, 50, 99, 100)] == [1.0, 100.0, 198.0, 200.0]
    assert percentile([3.0], 99) == 3.0


def test_a_step_keeps_up_if_nothing_is_late_and_the_rate_was_reached() -> None:
    assert Step(10, 9.6, [], 0, 0).keeps_up
    assert not Step(10, 9.4, [], 0, 0).keeps_up
    assert not Step(10, 10, [], 1, 0).keeps_up
