"""The built-in profiles give the figures of their sources: totals, filters and what bytes add."""

from __future__ import annotations

from decimal import Decimal

import pytest

from admc.cost.profiles.law import function, total
from admc.cost.profiles.profile import CPU, LATENCY, QUANTITIES, HopCost, Profile, law
from admc.cost.profiles.source import built_in
from dsl.program import Protocol

MESHINSIGHT = built_in("meshinsight").profile
RATE = 30_000.0


def whole(profile: Profile, protocol: Protocol, quantity: str, size: int | None = None) -> float:
    """Microseconds of latency or CPU seconds of one request at a hop."""
    hop = profile.hop(protocol)
    assert isinstance(hop, HopCost)
    laws = [found for part in hop.parts if (found := law(part, quantity)) is not None]
    return total(function(quantity, each, hop.sizes).estimate(RATE, size).amount for each in laws).value


# MeshInsight, table 2: totals as printed. They differ from the sums of the columns by up to 0.1.
PRINTED = {
    Protocol.TCP: ("38.63", "3.25"),
    Protocol.HTTP: ("167.25", "9.65"),
    Protocol.GRPC: ("194.79", "13.79"),
}
SUMS = {Protocol.TCP: ("38.53", "3.25"), Protocol.HTTP: ("167.25", "9.64"), Protocol.GRPC: ("194.88", "13.78")}


@pytest.mark.parametrize("protocol", Protocol)
def test_totals_of_table_2(protocol: Protocol) -> None:
    for quantity, printed, summed in zip(QUANTITIES, PRINTED[protocol], SUMS[protocol], strict=True):
        value = whole(MESHINSIGHT, protocol, quantity, 100)
        value = value if quantity == LATENCY else value * RATE
        assert value == pytest.approx(float(summed), rel=1e-14)
        assert abs(value - float(printed)) <= 0.1 + 1e-9


TABLE_3 = {
    "fault": ("5.74", "0.20"),
    "local_ratelimit": ("8.19", "0.21"),
    "tap": ("156.09", "2.95"),
    "lua": ("80.59", "3.18"),
    "wasm": ("26.30", "0.69"),
}


def test_filters_of_table_3_add_up() -> None:
    """Filter costs add up (section 5): a hop with filters is its base and the filters."""
    assert {cost.component for cost in MESHINSIGHT.components} == set(TABLE_3)
    for index, quantity in enumerate(QUANTITIES):
        filters = 0.0
        for cost in MESHINSIGHT.components:
            found = law(cost, quantity)
            assert found is not None
            value = function(quantity, found, cost.sizes).estimate(RATE, 100).amount.value
            value = value if quantity == LATENCY else value * RATE
            assert value == pytest.approx(float(TABLE_3[cost.component][index]), rel=1e-14)
            filters += value
        assert filters == pytest.approx((276.91, 7.23)[index], rel=1e-14)
    assert whole(MESHINSIGHT, Protocol.HTTP, LATENCY) + 276.91 == pytest.approx(444.16, rel=1e-14)


def test_scripts_that_do_nothing_are_a_floor() -> None:
    assert {cost.component for cost in MESHINSIGHT.components if cost.floor} == {"lua", "wasm"}


def test_what_bytes_add_to_an_http_hop() -> None:
    for quantity, factor in ((LATENCY, "1.30"), (CPU, "1.44")):
        ratio = whole(MESHINSIGHT, Protocol.HTTP, quantity, 16_000) / whole(MESHINSIGHT, Protocol.HTTP, quantity, 100)
        assert abs(ratio - float(factor)) < 1e-9


@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.GRPC])
def test_no_slope_is_published_for_the_other_protocols(protocol: Protocol) -> None:
    hop = MESHINSIGHT.hop(protocol)
    assert hop is not None
    for part in hop.parts:
        for quantity in QUANTITIES:
            found = law(part, quantity)
            assert found is not None
            assert found.per_byte is None
            assert function(quantity, found, hop.sizes).estimate(RATE, 4000).no_slope


def test_the_law_of_meshinsight_is_proportional_to_the_rate() -> None:
    """One measured rate: every other one is extrapolated, by the same CPU for each request."""
    hop = MESHINSIGHT.hop(Protocol.HTTP)
    assert hop is not None
    found = law(hop.parts[0], CPU)
    assert found is not None
    slow, fast = (function(CPU, found, hop.sizes).estimate(rate, 100) for rate in (20, 30_000))
    assert slow.amount == fast.amount
    assert (slow.rate_outside, fast.rate_outside) == (True, False)


@pytest.mark.parametrize(
    ("name", "layer_4", "layer_7"), [("flatproxy", "7.6", "17.6"), ("flatproxy_envoy", "22", "62.5")]
)
def test_totals_of_flatproxy(name: str, layer_4: str, layer_7: str) -> None:
    profile = built_in(name).profile
    for protocol, expected in ((Protocol.TCP, layer_4), (Protocol.HTTP, layer_7)):
        hop = profile.hop(protocol)
        assert hop is not None
        assert all(part.cpu is None for part in hop.parts)
        assert sum(part.latency.base[0].figure.value for part in hop.parts if part.latency) == Decimal(expected)
    assert profile.hop(Protocol.GRPC) is None
