"""Latency where requests wait for each other is left out of a profile, and a note says so; CPU stays."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest

from admc.cost.profile_import.fit import Fitted
from tests.cost.test_fit import HEADER, line, made

Latencies = Mapping[tuple[int, int], float]
"""Of one arm, by rate and size."""


def of(hop: Latencies, component: Latencies | None = None) -> Fitted:
    """Five equal turns; requests that pass no proxy take 100 us."""
    lines = [HEADER]
    for turn in range(5):
        for (rate, size), latency in hop.items():
            lines.append(line(turn, "none", rate, size, latency_us=100))
            lines.append(line(turn, "hop", rate, size, latency_us=latency, cpu_cores=rate / 1000))
        for (rate, size), latency in (component or {}).items():
            lines.append(line(turn, "tap", rate, size, latency_us=latency, cpu_cores=rate / 500))
    return made("\n".join(lines))


CALM: Latencies = {(10, 100): 900, (10, 16100): 1060, (500, 100): 400, (500, 16100): 480}


def test_a_size_with_a_queue_is_left_out() -> None:
    """The line through the other sizes is straight: 300 us, and 80 us more for 16,000 bytes."""
    fitted = of({**CALM, (10, 64100): 1540, (500, 64100): 20_000})
    (hop,) = fitted.profile.hops
    latency, cpu = hop.parts[0].latency, hop.parts[0].cpu
    assert latency is not None
    assert latency.per_byte is not None
    assert [(knot.rate, knot.figure.value) for knot in latency.base] == [(10, 800), (500, 300)]
    assert [knot.figure.value for knot in latency.per_byte] == [Decimal("0.01"), Decimal("0.005")]
    assert cpu is not None
    assert cpu.per_byte is not None
    assert [knot.rate for knot in cpu.base] == [knot.rate for knot in cpu.per_byte] == [10, 500]
    assert fitted.notes == (
        "hop http: the latency at 500/s with 64100 bytes is left out, since requests wait for each other: they take "
        "20,000 us, and 1,540 us at a lower rate",
    )


def test_a_rate_at_which_all_wait_has_no_latency() -> None:
    fitted = of(CALM, {(10, 100): 1000, (500, 100): 9000})
    (tap,) = fitted.profile.components
    assert tap.latency is not None
    assert [(knot.rate, knot.figure.value) for knot in tap.latency.base] == [(10, 100)]
    assert tap.cpu is not None
    assert [knot.rate for knot in tap.cpu.base] == [10, 500]
    assert [note for note in fitted.notes if "wait" in note] == [
        "component tap (http): the latency at 500/s with 100 bytes is left out, since requests wait for each other: "
        "they take 9,000 us, and 1,000 us at a lower rate"
    ]


@pytest.mark.parametrize(("latency", "rates"), [(3330, [10, 500]), (3340, [10])])
def test_up_to_ten_thirds_of_the_latency_at_a_lower_rate_is_kept(latency: int, rates: list[int]) -> None:
    """A worker that is busy for 70% of the time has a queue of that length, and a profile holds up to there."""
    (hop,) = of({(10, 100): 1000, (500, 100): latency}).profile.hops
    law = hop.parts[0].latency
    assert law is not None
    assert [knot.rate for knot in law.base] == rates


def test_a_warm_proxy_says_how_long_requests_take_without_a_queue() -> None:
    """At the lowest rate it is cold: 2,000 us are no measure for a queue at 1,600/s."""
    (hop,) = of({(10, 100): 2000, (400, 100): 1200, (1600, 100): 6000}).profile.hops
    law = hop.parts[0].latency
    assert law is not None
    assert [knot.rate for knot in law.base] == [10, 400]


def test_a_queue_that_is_there_in_most_turns_counts_also_where_the_calmest_have_none() -> None:
    lines = [HEADER]
    for turn in range(7):
        calm = turn < 3
        for rate, latency in ((10, 1000), (500, 900 if calm else 9000)):
            lines.append(line(turn, "none", rate, 100, latency_us=100, stolen=0))
            lines.append(line(turn, "hop", rate, 100, latency_us=latency, stolen=0 if calm else "0.05"))
    fitted = made("\n".join(lines) + "\n")
    law = fitted.profile.hops[0].parts[0].latency
    assert law is not None
    assert [knot.rate for knot in law.base] == [10]
