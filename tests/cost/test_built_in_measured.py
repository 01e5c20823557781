"""The built-in profile that `admc profile measure` made: it prices every built-in kind that can be measured."""

from __future__ import annotations

import json

from admc.cost.measurement.uses import of_prelude
from admc.cost.model.prices import Prices
from admc.cost.profiles.profile import CPU, LATENCY, law
from admc.cost.profiles.source import built_in
from dsl.documents import fields_of
from dsl.kinds import prelude
from dsl.program import Protocol

NAME = "shared_2core_envoy_1_40"
PROFILE = built_in(NAME).profile


def test_it_has_every_component_of_the_prelude() -> None:
    wanted = {
        (declared.kind.component, protocol)
        for declared in prelude.kinds().values()
        for protocol in declared.kind.protocols
    }
    assert {(cost.component, cost.protocol) for cost in PROFILE.components} == wanted
    keys = {(use.protocol, use.key.name, use.key.side, use.key.kind, use.key.arguments) for use in of_prelude()}
    found = {(each.protocol, each.component, each.side, each.kind, each.choices) for each in PROFILE.components}
    assert found == keys


def test_hops_have_five_rates_from_5_and_sizes_to_64_kb_with_intervals() -> None:
    assert [hop.protocol for hop in PROFILE.hops] == list(Protocol)
    for hop in PROFILE.hops:
        assert hop.sizes is not None
        assert (hop.sizes.low, hop.sizes.high) == (100, 65536)
        part, *of_cpu = hop.parts
        assert {"read", "write", "user"} <= {each.name for each in of_cpu}
        assert all(each.cpu is not None and each.latency is None for each in of_cpu)
        for quantity in (LATENCY, CPU):
            found = law(part, quantity)
            assert found is not None
            assert found.per_byte is not None
            assert len(found.base) == len(found.per_byte) == 5
            assert found.base[0].rate == 5
            assert all(knot.figure.low is not None for knot in found.base)


def test_a_cold_request_costs_several_times_that_of_a_busy_sidecar() -> None:
    for hop in PROFILE.hops:
        cpu = law(hop.parts[0], CPU)
        assert cpu is not None
        each = [knot.figure.value / knot.rate for knot in cpu.base if knot.rate is not None]
        assert each[0] > 2 * each[-1]


def test_scripts_are_a_floor_and_a_sidecar_costs_something_idle() -> None:
    assert {cost.component for cost in PROFILE.components if cost.floor} == {"lua", "wasm"}
    assert all(figure is not None and figure.value > 0 for _, figure in fields_of(PROFILE.sidecar))
    assert Prices(PROFILE).complete(Protocol.HTTP, CPU)


def test_it_names_no_machine_but_says_how_it_was_measured() -> None:
    assert PROFILE.proxy.version.startswith("1.40")
    assert "two shared" in PROFILE.platform.machine
    for word in ("redirected by the emitted rules", "open loop", "schedstat"):
        assert word in PROFILE.method.text
    assert "/" not in json.dumps([PROFILE.platform.machine, PROFILE.platform.system])
