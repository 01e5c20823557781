"""The mesh of the benchmark is one that `admc advise` takes without a finding, with the calls of its topology."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.istio.services import CALLS, called, write
from tests.cli.command import Admc

WORKLOADS = 60


def test_each_workload_has_four_resources_and_four_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mesh, calls = write(tmp_path, WORKLOADS)
    run = Admc(capfd)("advise", mesh, "--calls", calls, "--format", "json")
    made = json.loads(run.out)
    assert (run.code, made["diagnostics"]) == (0, [])
    kinds = ("AuthorizationPolicy", "DestinationRule", "VirtualService")
    concerned = {it["kind"]: (it["concerns"], len(it["resources"])) for it in made["resources"]}
    assert concerned == dict.fromkeys(kinds, ("sidecars", WORKLOADS))
    assert made["calls"]["calls"] == sum(len(called(number, WORKLOADS)) for number in range(WORKLOADS))
    assert made["calls"]["calls"] > 0.9 * CALLS * WORKLOADS
