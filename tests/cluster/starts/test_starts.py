"""A few starts, as `python -m tests.cluster.starts` counts two hundred of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.node.cluster import cluster
from tests.cluster.starts.starts import BARE, CALLED_PODS, KINDS, PROXIED, SPARE_ADDRESSES, Kind, Starts
from tests.cluster.tools import MissingError
from tests.cluster.traffic.mesh import Mesh

AT_ONCE = 3


@pytest.mark.cluster
def test_callers_that_call_at_once_meet_their_policies_because_they_wait(tmp_path: Path) -> None:
    try:
        with cluster(AT_ONCE + CALLED_PODS + SPARE_ADDRESSES) as node:
            starts = Starts(Mesh(node, tmp_path))
            try:
                starts.begin()
                starts.run([*KINDS * 2, Kind(PROXIED, True), Kind(BARE, True), Kind(BARE, False)], AT_ONCE)
            finally:
                starts.end()
    except MissingError as error:
        pytest.skip(str(error))
    waited = [each for each in starts.done if each.kind.waits]
    assert len(waited) == 6
    assert all(each.is_enforced for each in waited), waited
    assert any(each.has_anothers_address for each in starts.done), "addresses are used again"
    assert any(each.unenforced for each in starts.done if each.kind == Kind(BARE, False)), "what the wait is for"
