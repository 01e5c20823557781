"""Another release takes over under traffic, and gives the same plan other resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from tests.serve.traffic.other_release import other_release
from tests.serve.traffic.programs import EGRESS, Variant
from tests.serve.traffic.upgrade import upgraded

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
@pytest.mark.parametrize("reduced", [False, True], ids=["as in a folder", "as in a cluster"])
def test_no_request_fails_while_another_release_takes_over(tmp_path: Path, reduced: bool) -> None:
    assert ENVOY is not None
    verdict = upgraded(tmp_path, ENVOY, other_release(tmp_path), reduced=reduced, seconds=2.0)
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.requests > 500


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_policies_move_only_when_connections_of_the_earlier_release_are_closed(tmp_path: Path) -> None:
    assert ENVOY is not None
    moved = Variant().at(EGRESS)
    verdict = upgraded(tmp_path, ENVOY, other_release(tmp_path), reduced=True, seconds=2.0, following=moved)
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.requests > 500
