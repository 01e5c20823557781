"""The page of a plan says why each ADM is there, what each call meets, and what a full mesh would cost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from admc.compile.plan.model import Plan
from admc.review.diff.sides.take import Options, side
from admc.review.report.graph import MOST_NODES, SMALLEST_SIGN, most_important
from admc.review.report.html import data_block
from admc.review.report.model import Bar, Edge, Node, Page, Section
from admc.review.report.plan_page import plan_page
from solver.placement import Status
from tests.review.report.programs import hotel, profiled


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return side(str(profiled(tmp_path_factory.mktemp("priced"))), Options()).known


def section(sections: Iterable[Section], title: str) -> Section:
    (found,) = (each for each in sections if each.title == title)
    return found


def node(page: Page, name: str) -> Node:
    (found,) = (each for each in page.nodes if each.name == name)
    return found


def edge(page: Page, source: str, target: str) -> Edge:
    names = [each.name for each in page.nodes]
    (found,) = (each for each in page.edges if (names[each.source], names[each.target]) == (source, target))
    return found


def texts(section: Section) -> list[list[str]]:
    return [[cell.text for cell in row] for row in section.rows]


def figures(bars: Iterable[Bar]) -> list[tuple[str, str]]:
    return [(bar.label, bar.text) for bar in bars]


def test_every_reason_of_an_adm_is_in_its_panel_with_its_lines() -> None:
    plan, page = hotel(), plan_page(hotel())
    for adm in plan.adms:
        why = texts(section(node(page, adm.service).panel, "Why it is here"))
        assert len(why) == len(adm.because)
        for because in adm.because:
            (row,) = (row for row in why if row[0] == because.policy and row[1] == because.text)
            assert all(f"{line.path}:{line.line}" in row[2] for line in because.lines)


def test_the_panel_of_an_adm_has_its_policies_in_order_its_ports_and_replicas() -> None:
    panel = node(plan_page(hotel()), "reservation").panel
    assert texts(section(panel, "Policies, in their order")) == [
        [
            "booking_quota",
            "ingress",
            'rate_limit(requests: 90, per: 1m, burst: 90) when path == "/reservation.Reservation/MakeReservation"',
            "policies.adm:45",
        ],
        [
            "booking_db",
            "egress to mongodb-reservation",
            "connection_rate_limit(connections: 10, per: 10s, burst: 10)",
            "policies.adm:65",
        ],
    ]
    about = dict(texts(section(panel, "About")))
    assert about["redirected"] == "ingress 9000, egress to mongodb-reservation:27017"
    assert about["replicas"] == "1"


def test_parties_look_like_what_they_are() -> None:
    page = plan_page(hotel())
    assert (node(page, "internet").shape, node(page, "mongodb-geo").shape) == ("external", "database")
    assert node(page, "frontend").shape == "service"
    assert {each.name for each in page.nodes if each.adm} == {"frontend", "reservation", "search", "user"}
    assert {each.name for each in page.nodes if each.closed} == {"mongodb-reservation", "rate"}
    assert not node(page, "mongodb-geo").hosts
    assert texts(section(node(page, "rate").panel, "Closed"))[0] == ["admitted", "search"]


def test_a_call_shows_the_policies_that_it_meets_and_the_side_of_each() -> None:
    page = plan_page(hotel())
    found = edge(page, "frontend", "reservation")
    assert found.look == "both"
    rows = texts(section(found.panel, "Policies that it meets, in declared order"))
    assert [row[:2] for row in rows] == [
        ["booking_quota", "ingress of reservation"],
        ["booking_budget", "egress of frontend"],
    ]
    assert [page.policies[at] for at in found.policies] == ["booking_quota", "booking_budget"]
    assert edge(page, "search", "rate").look == "egress"
    assert edge(page, "internet", "frontend").look == "ingress"
    bare = edge(page, "rate", "mongodb-rate")
    assert bare.look == "plain"
    assert "No policy" in section(bare.panel, "Policies that it meets, in declared order").note


def test_every_call_of_the_program_is_drawn_once() -> None:
    plan, page = hotel(), plan_page(hotel())
    names = [each.name for each in page.nodes]
    drawn = [(names[each.source], names[each.target]) for each in page.edges]
    assert sorted(drawn) == sorted({(call.source, call.destination) for call in plan.calls or ()})


def test_without_a_profile_there_is_a_full_mesh_and_no_figure_of_cost() -> None:
    page = plan_page(hotel())
    compared = section(page.sections, "Full mesh, plan and none")
    assert figures(compared.groups[0].bars) == [
        ("no mesh", "0"),
        ("this plan", "4"),
        ("full mesh, where a sidecar can be", "8"),
        ("full mesh, everywhere", "17"),
    ]
    assert [bar.fraction for bar in compared.groups[0].bars] == [0.0, 0.23529, 0.47059, 1.0]
    assert not [each for each in page.sections if "CPU" in each.title]
    assert "no profile, so no figure of cost" in page.facts
    assert {each.sign for each in page.nodes} == {0.0, SMALLEST_SIGN}


def test_with_a_profile_totals_are_those_of_the_plan(priced: Plan) -> None:
    compared = section(plan_page(priced).sections, "Full mesh, plan and none")
    titles = [group.title for group in compared.groups]
    assert titles == ["sidecars", "CPU, cores", "memory, MB", "added latency, ms in a second"]
    assert figures(compared.groups[0].bars) == [
        ("no mesh", "0"),
        ("this plan", "4"),
        ("full mesh, where a sidecar can be", "8"),
        ("full mesh, everywhere", "17"),
    ]
    assert priced.overhead is not None
    totals = priced.overhead.totals
    cores = [total.cpu.value / 1e9 for total in (totals.plan, totals.full_mesh, totals.full_mesh_everywhere)]
    assert [text for _label, text in figures(compared.groups[1].bars)] == ["0", *(f"at least {it:.3f}" for it in cores)]


def test_components_parts_and_idle_sidecars_add_up_to_the_cpu_of_the_plan(priced: Plan) -> None:
    assert priced.overhead is not None
    groups = {
        group.title: group.bars for group in section(plan_page(priced).sections, "CPU of the plan, in cores").groups
    }
    by_adm, by_component, by_part = groups.values()
    assert [bar.label for bar in by_adm] == ["frontend", "search", "reservation", "user"]
    assert {"access_log", "rbac", "router"} <= {bar.label for bar in by_component}
    of_hops = {f"hops: {part}" for part in ("user", "ipc", "notification", "read", "write", "kernel")}
    assert {bar.label for bar in by_part} == {*of_hops, "sidecars without requests"}
    assert [bar.fraction for bar in by_part] == sorted((bar.fraction for bar in by_part), reverse=True)
    summed = sum(float(bar.text.removeprefix("at least ")) for bar in (*by_component, *by_part))
    assert summed == pytest.approx(priced.overhead.totals.plan.cpu.value / 1e9, rel=0.01)


def test_the_area_of_a_hexagon_grows_with_the_cost(priced: Plan) -> None:
    page = plan_page(priced)
    costs = {adm.service: adm.overhead.cpu.value for adm in priced.adms if adm.overhead is not None}
    large, middle = node(page, "frontend"), node(page, "search")
    assert (middle.sign / large.sign) ** 2 == pytest.approx(costs["search"] / costs["frontend"], rel=0.02)
    assert node(page, "user").sign == SMALLEST_SIGN
    assert all(each.height > each.sign for each in page.nodes)


def test_what_an_estimate_lacks_is_on_the_page(priced: Plan) -> None:
    lacks = texts(section(plan_page(priced).sections, "What the estimate lacks"))
    assert [
        "no figure",
        "without a size, so without a cost of bytes: reservation -> mongodb-reservation",
        "reservation",
    ] in lacks


def test_a_plan_that_is_not_proven_says_so() -> None:
    open_ = replace(hotel(), solver=replace(hotel().solver, status=Status.FEASIBLE))
    assert "correct, but not proven optimal" in plan_page(open_).facts


def test_a_program_without_services_or_policies_has_a_page() -> None:
    empty = replace(
        hotel(), services=(), externals=(), calls=(), policies=(), adms=(), enforcements=(), decisions=(), closed=()
    )
    page = plan_page(empty)
    assert not page.nodes
    assert json.loads(data_block(page))["facts"][0] == "0 of 0 services host an ADM"


def test_of_a_large_mesh_adms_and_their_neighbours_are_drawn() -> None:
    names = [f"s{at:05}" for at in range(3 * MOST_NODES)]
    adms = {"s02999": 3, "s01500": 1}
    kept = most_important(names, adms, [("s02000", "s02999"), ("s01500", "s02500")])
    assert len(kept) == MOST_NODES
    assert {"s02999", "s02000", "s01500", "s02500"} <= kept
    assert most_important(names[:10], adms, []) == frozenset(names[:10])
