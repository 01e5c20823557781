"""A hundred programs in a row, and every request shows one of those that were there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from tests.serve.traffic.bed import Bed
from tests.serve.traffic.walk import WalkOptions, differs_from_a_fresh_start, walk

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_fifty_changes_under_traffic(tmp_path: Path) -> None:
    assert ENVOY is not None
    with Bed(tmp_path, ENVOY) as bed:
        bed.serve()
        bed.start_proxies()
        bed.wait_until_in_force()
        # Those that are waited for may take as long as proxies keep older connections: the long form has more of them.
        walk(bed, WalkOptions(changes=50, single=2, burst=48))
        assert bed.disagreements() == []
        assert differs_from_a_fresh_start(bed) == []
    verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
