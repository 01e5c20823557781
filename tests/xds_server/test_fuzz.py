"""A few seconds of `fuzz` and of `churn`: `--minutes` says how long they run."""

from __future__ import annotations

import pytest

from tests.xds_server.churn import churn, verdict
from tests.xds_server.fuzz import complaints, fuzz

pytestmark = pytest.mark.long


async def test_nonsense_at_the_wire_leaves_nothing_behind() -> None:
    outcome = await fuzz(2.0, seed=7)
    assert outcome.after.served > outcome.before.served
    assert complaints(outcome) == []


async def test_streams_that_come_and_go_leave_nothing_behind() -> None:
    outcome = await churn(2.0, streams=20, every=0.5, seed=7, least=100)
    assert outcome.responses >= 100
    assert verdict(outcome) == []
