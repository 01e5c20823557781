"""Costs for the solver are those of the model where a hop is alone, and never below it where it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.cost.model.coefficients import coefficients
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from admc.cost.model.overhead import AdmOverhead
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.source import built_in
from dsl import load_text
from dsl.program import Program
from solver.place import place
from solver.placement import Costs, Hop
from solver.rules.options import decision_points
from tests.cost.documents import Document, profile
from tests.cost.test_estimate import ONE
from tests.generate import generate
from tests.properties import examples

NODE = profile()


def by_coefficients(program: Program, costs: Costs, adm: AdmOverhead) -> int:
    """CPU of one ADM as the solver adds it up."""
    enforced = {(hop.side, share.policy, hop.destination) for hop in adm.hops for share in hop.components}
    return (
        costs.adm[adm.service].cpu
        + sum(costs.hop[Hop(adm.service, hop.side, hop.destination, hop.port)].cpu for hop in adm.hops)
        + sum(costs.enforcement[adm.service, *key].cpu for key in enforced if (adm.service, *key) in costs.enforcement)
    )


def test_a_single_hop_costs_what_the_model_says() -> None:
    program = load_text(f"app shop\n{ONE}")
    placement = place(program)
    costs = coefficients(program, decision_points(program), NODE)
    found = estimate(program, of_placement(program, placement), NODE)
    assert by_coefficients(program, costs, found.adms[0]) == found.totals.cpu.value
    (hop,) = found.adms[0].hops
    assert hop.base is not None
    key = Hop(hop.service, hop.side, hop.destination, hop.port)
    # 5 requests in a second, each 840 us
    assert (costs.hop[key].cpu, costs.hop[key].latency) == (hop.base.value, 5 * 840_000)


@pytest.mark.parametrize("costs", [NODE, built_in("meshinsight").profile], ids=lambda costs: costs.name)
@pytest.mark.parametrize("seed", range(10))
def test_the_solver_errs_on_the_safe_side(seed: int, costs: Profile) -> None:
    """For each ADM and not in sum alone: R9 is about each."""
    program = load_text(generate(60, 160, 40, seed))
    placement = place(program)
    found = coefficients(program, decision_points(program), costs)
    for adm in estimate(program, of_placement(program, placement), costs).adms:
        assert by_coefficients(program, found, adm) >= adm.cpu.value


@examples(200)
@given(st.floats(0.01, 3000), st.floats(0.01, 3000), st.sampled_from([1, 100, 1099, 1100, 4096]))
def test_rounding_never_makes_a_coefficient_less_than_the_model(one: float, other: float, size: int) -> None:
    """Two hops of one sidecar, with messages below and above the reference size."""

    def change(document: Document) -> None:
        document["hops"][0]["sizes"] = {"low": 100, "high": 65536, "reference": 1100}

    costs = profile(change)
    program = load_text(
        "app shop\n"
        "service web, a, b { http 8080 }\n"
        f"call web -> a {{ rate {one:.9f}/s  size {size}B }}\n"
        f"call web -> b {{ rate {other:.9f}/s  size {size}B }}\n"
        "@egress policy count = request_count() on web -> *\n"
    )
    found = coefficients(program, decision_points(program), costs)
    (adm,) = estimate(program, of_placement(program, place(program)), costs).adms
    assert by_coefficients(program, found, adm) >= adm.cpu.value


def test_coefficients_do_not_depend_on_the_placement() -> None:
    program = load_text(f"app shop\n{ONE}")
    other = load_text(f"app shop\n{ONE}".replace("at ingress", "at egress"))
    assert coefficients(program, decision_points(program), NODE) == coefficients(other, decision_points(other), NODE)


def test_both_sides_have_coefficients() -> None:
    program = load_text(f"app shop\n{ONE}")
    found = coefficients(program, decision_points(program), NODE)
    assert {(host, side.value) for host, side, _, _ in found.hop} == {("web", "egress"), ("api", "ingress")}
    assert set(found.adm) == {"web", "api"}


@pytest.mark.parametrize(("seconds", "nano_cores"), [("0.00004", 667), ("0.0000000900001", 2), ("0.0000000899999", 1)])
def test_a_coefficient_is_rounded_once_to_whole_nano_cores(seconds: str, nano_cores: int) -> None:
    """A filter of 40 us of CPU at one request a minute is 667 nano-cores, and no whole micro-core."""

    def slow(document: Document) -> None:
        for component in document["components"]:
            component["cpu"]["base"] = [{"rate": 1, "value": float(seconds), "interval": None}]

    program = load_text(f"app shop\n{ONE}".replace("rate 5/s", "rate 1/m"))
    costs = coefficients(program, decision_points(program), profile(slow))
    assert nano_cores in {cost.cpu for cost in costs.enforcement.values()}
