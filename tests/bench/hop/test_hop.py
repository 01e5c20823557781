"""The measurement of a hop works: every configuration is one that Envoy takes, and differences are paired."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.bench.hop.arms import ARMS, EMITTED
from tests.bench.hop.measure import difference, layout
from tests.emitters.envoy.support import ENVOY, validate


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoy_takes_each_configuration_and_all_differ(tmp_path: Path) -> None:
    emitted = layout([EMITTED], tmp_path).files()[f"{EMITTED}/bootstrap.yaml"]
    seen = set()
    for name, change in ARMS.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(change(yaml.safe_load(emitted))))
        assert validate(path) == "", name
        seen.add(path.read_text())
    assert len(seen) == len(ARMS)


def test_a_difference_is_of_pairs_and_needs_enough_of_them() -> None:
    drift = [float(number**2) for number in range(20)]
    found = difference([value + 1 for value in drift], drift)
    assert (found.median, found.low, found.high) == (1.0, 1.0, 1.0)
    few = difference([2.0, 3.0], [1.0, 1.0])
    assert few.low == float("-inf")
