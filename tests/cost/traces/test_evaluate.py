"""Trees as columns give what a plain recursive evaluation gives, tree by tree."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import dsl
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_full_mesh
from admc.cost.model.prices import Prices
from admc.cost.profiles.amounts import NANO, whole
from admc.cost.profiles.source import built_in
from admc.cost.requests.calls import call_costs
from admc.cost.traces.directory import Directory
from admc.cost.traces.drops import Drops
from admc.cost.traces.evaluate import longest_paths, sums
from admc.cost.traces.forest import Linked, forest
from admc.cost.traces.read import evaluated
from dsl.program import Program
from solver.place import place
from tests.bench.traces import generate
from tests.cost.traces import reference

TRACES = 1000


class Result(NamedTuple):
    without: int
    latency: int
    cpu: int


class Generated(NamedTuple):
    program: Program
    costs: dict[tuple[str, str], reference.Cost]
    csv: Path
    parquet: Path


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    folder = tmp_path_factory.mktemp("traces")
    written = generate.write(folder, TRACES, seed=7, defects=0.3)
    program = dsl.load_text(generate.program())
    profile = built_in("meshinsight").profile
    layout = of_full_mesh(program, place(program))
    found = call_costs(program, layout, estimate(program, layout, profile), Prices(profile), range(len(program.calls)))
    costs = {
        (call.source, call.destination): reference.Cost(
            found[index].latency.value + 7 * index, whole(found[index].cpu, NANO).value
        )
        for index, call in enumerate(program.calls)
    }
    return Generated(program, costs, written.csv, written.parquet)


def _by_columns(generated: Generated, *files: Path) -> list[Result]:
    columns = [
        np.array([generated.costs[call.source, call.destination][at] for call in generated.program.calls], np.int64)
        for at in (0, 1)
    ]

    def work(linked: Linked) -> list[Result]:
        trees = forest(linked)
        without = longest_paths(trees, np.zeros_like(columns[0]))
        with_mesh = longest_paths(trees, columns[0])
        cpu = sums(trees, columns[1])
        rows = zip(without.tolist(), (with_mesh - without).tolist(), cpu.tolist(), strict=True)
        return [Result(*row) for row in rows]

    drops = Drops()
    directory = Directory(generated.program, drops)
    return [each for part in evaluated(files, directory, drops, work) for each in part]


def _recursively(generated: Generated) -> list[Result]:
    found = []
    for rows in reference.read(generated.csv).values():
        try:
            root = reference.tree(rows, generated.costs, "users")
        except reference.WrongError:
            continue
        without = reference.path_length(root, None)
        added = reference.path_length(root, generated.costs) - without
        found.append(Result(without, added, reference.cpu(root, generated.costs)))
    return found


def test_a_thousand_traces_equal_a_recursive_evaluation(generated: Generated) -> None:
    expected = _recursively(generated)
    assert TRACES * 0.7 < len(expected) < TRACES * 0.9
    assert len({each.latency for each in expected}) > TRACES / 2
    assert _by_columns(generated, generated.csv) == expected
    assert _by_columns(generated, generated.parquet) == expected


def test_parts_of_any_size_give_the_same(generated: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _by_columns(generated, generated.csv)
    monkeypatch.setattr("admc.cost.traces.rows.PART_ROWS", 700)
    monkeypatch.setattr("admc.cost.traces.alibaba.BLOCK", 100_000)
    assert _by_columns(generated, generated.csv) == expected


def test_the_order_of_rows_means_nothing(generated: Generated, tmp_path: Path) -> None:
    head, *rows = generated.csv.read_text().splitlines()
    order = np.random.default_rng(5).permutation(len(rows))
    half = len(rows) // 2
    files = tmp_path / "one.csv", tmp_path / "other.csv"
    for file, chosen in zip(files, (order[:half], order[half:]), strict=True):
        file.write_text("\n".join([head, *(rows[at] for at in chosen)]) + "\n")
    assert sorted(_by_columns(generated, *files)) == sorted(_by_columns(generated, generated.csv))


def test_the_generated_traces_are_as_large_as_they_should_be() -> None:
    random = np.random.default_rng(3)
    found = generate.sizes(200_000, random)
    assert 23 < found.mean() < 28
    assert 0.09 < (found > 40).mean() < 0.11
    assert found.max() == generate.LARGEST
