"""Runs as a measurement makes them: hops with a side, and components at fewer sizes than hops."""

from __future__ import annotations

from admc.cost.profile_import.fit import Fitted, fit
from admc.cost.profile_import.runs import read_runs
from admc.cost.profiles.profile import Platform, Proxy
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText

HEAD = "turn,arm,protocol,side,kind,arguments,rate,size,latency_us,cpu_cores,memory_bytes\n"


def _fitted(lines: str) -> Fitted:
    diagnostics = Diagnostics()
    runs = read_runs(SourceText("runs.csv", HEAD + lines), diagnostics)
    assert runs is not None, diagnostics.items
    return fit(runs, "x", Platform("m", "s"), Proxy("envoy", "1"), None)


BASE = "1,none,http,,,,10,100,100,,\n1,hop,http,,,,10,100,300,0.01,\n"


def test_a_component_is_compared_with_the_hop_of_its_own_side() -> None:
    profile = _fitted(
        BASE
        + "1,hop,http,ingress,,,10,100,310,0.012,\n"
        + "1,hop,http,egress,,,10,100,500,0.02,\n"
        + "1,rbac,http,,,,10,100,330,0.013,\n"
        + "1,router,http,egress,retry,,10,100,540,0.025,\n"
    ).profile
    rbac, router = profile.components
    assert rbac.latency is not None
    assert router.latency is not None
    assert router.cpu is not None
    assert rbac.latency.base[0].figure.value == 20
    assert router.latency.base[0].figure.value == 40
    assert float(router.cpu.base[0].figure.value) == 0.005


def test_the_hop_itself_is_that_without_a_side() -> None:
    (hop,) = _fitted(BASE + "1,hop,http,egress,,,10,100,900,0.9,\n").profile.hops
    (part,) = hop.parts
    assert part.latency is not None
    assert part.cpu is not None
    assert part.latency.base[0].figure.value == 200
    assert float(part.cpu.base[0].figure.value) == 0.01


def test_the_cost_of_a_byte_is_known_at_the_rates_with_several_sizes() -> None:
    (cost,) = _fitted(
        BASE
        + "1,hop,http,,,,20,100,300,0.02,\n1,hop,http,,,,20,1100,300,0.02,\n"
        + "1,none,http,,,,20,100,100,,\n1,none,http,,,,20,1100,100,,\n"
        + "1,tap,http,,,,10,100,350,0.02,\n"
        + "1,tap,http,,,,20,100,340,0.03,\n1,tap,http,,,,20,1100,440,0.04,\n"
    ).profile.components
    assert cost.latency is not None
    assert cost.latency.per_byte is not None
    assert [(float(knot.rate or 0), float(knot.figure.value)) for knot in cost.latency.per_byte] == [(20.0, 0.1)]
    assert [float(knot.rate or 0) for knot in cost.latency.base] == [10.0, 20.0]
