"""The judge finds failed, unenforced and doubled requests."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from admc.testbed.echo import Seen
from tests.serve.traffic.judge import FEW, Cut, Outage, Timeline, admitted, judge
from tests.serve.traffic.programs import BURST, EGRESS, OUT, Variant
from tests.testbed.callers import Request, RequestSpec

PLAIN = RequestSpec("shop", "cart", "http")


def arrival(*headers: tuple[str, str]) -> Seen:
    return Seen("cart", 80, "http/1.1", "GET", "/", (("x-echo-id", "r"), *headers), "127.0.0.1", 0)


def request(
    spec: RequestSpec = PLAIN, status: int | None = 200, at: float | None = None, *, lost: bool = False
) -> Request:
    now = time.monotonic() if at is None else at
    return Request("r", spec, now, now, now, status, (("x-said", "1"),), lost=lost)


def line(*variants: Variant) -> Timeline:
    timeline = Timeline(3)
    for variant in variants:
        timeline.wrote(variant)
    return timeline


FINE = (("x-once", "1"), ("x-wide", "1"))


@pytest.mark.parametrize(
    ("spec", "status", "lost", "arrivals", "failed", "unenforced"),
    [
        (PLAIN, 200, False, [arrival(*FINE)], 0, 0),
        (PLAIN, 200, False, [arrival(("x-wide", "1"))], 0, 1),  # skipped
        (PLAIN, 200, False, [arrival(*FINE, ("x-once", "1"))], 0, 1),  # twice
        (PLAIN, 200, False, [arrival(("x-once", "2"), ("x-wide", "1"))], 0, 1),  # with another argument
        (PLAIN, 200, False, [arrival(*FINE, ("x-admc-met", "secret"))], 0, 1),
        (PLAIN, 200, False, [arrival(*FINE), arrival(*FINE)], 0, 1),
        (PLAIN, 503, False, [], 1, 0),
        (PLAIN, None, False, [], 1, 0),
        (PLAIN, None, True, [], 0, 0),
        (PLAIN, None, True, [arrival(*FINE)], 1, 0),
        (PLAIN._replace(headers=OUT), 403, False, [], 0, 0),
        (PLAIN._replace(headers=OUT), 200, False, [arrival(*FINE)], 0, 1),
    ],
)
def test_one_request(
    spec: RequestSpec, status: int | None, lost: bool, arrivals: list[Seen], failed: int, unenforced: int
) -> None:
    timeline = line(Variant())
    verdict = judge(timeline, [request(spec, status, lost=lost)], arrivals)
    assert (len(verdict.failed), len(verdict.unenforced)) == (failed, unenforced), verdict


def test_arguments_change_on_open_connections() -> None:
    timeline = line(Variant(), replace(Variant(), once="2"))
    old = [arrival(*FINE)]
    assert not judge(timeline, [request()], old).unenforced
    timeline.in_force()
    assert not judge(timeline, [request()], old).unenforced
    assert judge(timeline, [request(at=time.monotonic() + 2)], old).unenforced


def test_older_connections_keep_the_arguments_of_a_chain_that_changes_until_they_are_closed() -> None:
    timeline = line(Variant(), replace(Variant(), once="2", shut=True))
    timeline.in_force()
    old = [arrival(*FINE)]
    assert not judge(timeline, [request(at=time.monotonic() + 2)], old).unenforced
    assert judge(timeline, [request(at=time.monotonic() + 7)], old).unenforced


def test_delayed_workers_may_enforce_the_earlier_program_until_they_have_served_requests() -> None:
    timeline = line(Variant(), replace(Variant(), once="2"))
    old, now = [arrival(*FINE)], time.monotonic()
    timeline.in_force(now - 5)
    assert not judge(timeline, [request(at=now)], old).unenforced
    assert judge(timeline, [request(at=time.monotonic() + 0.5)], old).unenforced


def test_older_connections_keep_the_earlier_filters_until_they_are_closed() -> None:
    timeline = line(Variant(), replace(Variant(), shut=True))
    timeline.in_force()
    shut = PLAIN._replace(path="/shut")
    assert not judge(timeline, [request(shut, at=time.monotonic() + 2)], [arrival(*FINE)]).unenforced
    assert judge(timeline, [request(shut, at=time.monotonic() + 7)], [arrival(*FINE)]).unenforced


def test_connections_that_arrive_without_an_answer_are_counted() -> None:
    seen = Seen("ledger", 80, "tcp", "", "", (), "127.0.0.1", 0)
    timeline = line(Variant())
    refused = request(RequestSpec("till", "ledger", "tcp"), None)
    assert not judge(timeline, [refused], []).unenforced
    assert judge(timeline, [refused], [seen]).unenforced


def test_a_request_of_a_stranger_may_have_any_status_but_must_not_arrive() -> None:
    refused = [request(PLAIN, status) for status in (403, None, 200)]
    verdict = judge(line(Variant()), [], [], strangers=refused)
    assert (verdict.wrong, verdict.strangers) == ([], {403: 1, None: 1, 200: 1})
    verdict = judge(line(Variant()), [], [arrival(*FINE)], strangers=refused[:1])
    assert len(verdict.arrived) == len(verdict.wrong) == 1


@pytest.mark.parametrize(
    ("status", "opened", "at", "ends", "cut"),
    [
        (None, 1.0, 5.0, "shop", 1),
        (None, 2.5, 5.0, "shop", 0),  # a newer connection
        (None, 1.0, 7.0, "shop", 0),  # later
        (None, 1.0, 5.0, "till", 0),  # through another proxy
        (503, 1.0, 5.0, "shop", 0),  # with another status
    ],
)
def test_a_request_on_a_connection_that_is_cut_fails_with_its_status_and_in_its_time(
    status: int | None, opened: float, at: float, ends: str, cut: int
) -> None:
    timeline = line(Variant())
    timeline.cuts.append(Cut(frozenset({"shop"}), 3.0, 6.0, None, 2.0))
    made = request(PLAIN, status, at)._replace(opened=opened, ends=frozenset({ends}))
    verdict = judge(timeline, [made], [])
    assert (verdict.cut.total(), len(verdict.failed)) == (cut, 1 - cut)


def test_a_quota_that_moves_has_three_buckets_more_and_one_for_each_proxy_that_restarts() -> None:
    timeline = line(Variant(), replace(Variant(), once="2"), replace(Variant(), cart=EGRESS))
    timeline.outages.append(Outage(frozenset({"cart"}), 0.0, 1.0))
    few = [request(PLAIN._replace(path=FEW), status) for status in (200, 200, 429, 503)]
    passed, most, wrong = admitted(timeline, few)
    assert (passed, most, len(wrong)) == (2, BURST * (1 + 1 + 3 + 1), 1)
