"""One restart of each receiver of `python -m tests.cluster.restarts`, and the figures of made requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.node.cluster import cluster
from tests.cluster.restarts.__main__ import is_wrong
from tests.cluster.restarts.restarts import CALLER, ENDINGS, FOLDERS, SITE_PACKAGES, Restarts, counted, printed
from tests.cluster.tools import MissingError
from tests.cluster.traffic.mesh import Mesh
from tests.cluster.traffic.requests import Sent

if TYPE_CHECKING:
    from pathlib import Path

FEWEST = 200
"""Requests to a receiver during a restart."""
TRIES = 3


def sent(connection: int, **line: Any) -> Sent:
    met = ("1",) if "status" not in line else None
    found = {"protocol": "http", "connection": connection, "last": False, **line}
    return Sent(0.0, "web-0", "kept", met, "status 503" if met is None else "", found)


def test_a_second_reply_on_one_connection_is_noticed() -> None:
    closed = [sent(1), sent(1, status=503), sent(2, status=503)]
    assert counted(closed, enforced=True).most_lost == 1
    twice = counted([*closed, sent(1, status=503)], enforced=True)
    assert twice.most_lost == 2
    assert is_wrong("abrupt", twice)


def test_an_answer_after_the_hook_that_keeps_its_connection_is_noticed() -> None:
    row = counted([sent(1), sent(1, going=True, last=True), sent(2, going=True)], enforced=True)
    assert (row.after_hook, row.kept_open) == (2, 1)


@pytest.mark.cluster
def test_no_request_fails_in_a_pod_that_sleeps_before_it_stops(tmp_path: Path) -> None:
    try:
        with cluster() as node:
            mesh = Mesh(node, tmp_path, name="now", callers=CALLER, folders=FOLDERS, site_packages=SITE_PACKAGES)
            restarts = Restarts(mesh)
            restarts.begin()
            restarts.without()
            mesh.serve()
            restarts.injected()
            # On a busy machine a process may hear of the hook after its callers have left.
            for _ in range(TRIES):
                restarts.restart("now", 1)
                rows = {each: restarts.row("now", each, enforced=True) for each in ENDINGS}
                shown = "\n".join(printed("now", rows))
                assert not [name for name, row in rows.items() if is_wrong(name, row)], shown
                if all(row.after_hook > 0 or not ENDINGS[name].sleeps for name, row in rows.items()):
                    break
            mesh.end()
    except MissingError as error:
        pytest.skip(str(error))
    for name, row in rows.items():
        assert row.requests > FEWEST, shown
        assert row.after_hook > 0 or not ENDINGS[name].sleeps, shown
