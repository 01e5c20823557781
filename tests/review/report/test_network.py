"""The page shows policies that only a NetworkPolicy enforces: at their destination, on calls, and in moves."""

from __future__ import annotations

import pytest

from admc.compile.plan.model import Plan
from admc.review.diff.model import Move
from admc.review.diff.render.words import TEXT, place_phrase
from admc.review.diff.sides.take import Options, side
from admc.review.report.plan_page import plan_page
from dsl.program import Place
from tests.review.report.programs import hotel
from tests.review.report.test_plan_page import edge, node, section, texts

PROGRAM = """
app shop
network_policies enforced
service web { http 80 }
service api { http 80 }
service db { tcp 5432  no adm }
call web -> db, api
policy only = allow(callers: [web]) on * -> db
policy few = allow(callers: [web]) on * -> api
@ingress
policy slow = set_request_header(name: "x-a", value: "1") on * -> api
pin few at network
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("shop") / "shop.adm"
    path.write_text(PROGRAM)
    return side(str(path), Options()).known


def test_a_service_without_an_adm_shows_its_policies_in_the_network(shop: Plan) -> None:
    page = plan_page(shop)
    db = node(page, "db")
    assert not db.adm
    assert db.closed
    assert db.policies == (page.policies.index("only"),)
    assert section(db.panel, "About").note == "Cannot host an ADM. Its NetworkPolicy alone enforces policies."
    rows = texts(section(db.panel, "Policies in the network, without an ADM"))
    assert [row[:2] for row in rows] == [["only", "allow(callers: [web])"]]
    closed = section(db.panel, "Closed")
    assert closed.note == "A NetworkPolicy admits only callers that the policies in the network admit."


def test_a_service_with_an_adm_shows_both(shop: Plan) -> None:
    api = node(plan_page(shop), "api")
    assert [row[0] for row in texts(section(api.panel, "Policies in the network, without an ADM"))] == ["few"]
    assert [row[0] for row in texts(section(api.panel, "Policies, in their order"))] == ["slow"]
    assert len(api.policies) == 2


def test_the_look_of_a_call_says_that_the_network_enforces(shop: Plan) -> None:
    page = plan_page(shop)
    assert edge(page, "web", "db").look == "network"
    assert edge(page, "web", "api").look == "mixed"
    met = texts(section(edge(page, "web", "db").panel, "Policies that it meets, in declared order"))
    assert [row[:2] for row in met] == [["only", "network of db"]]
    assert {"network", "mixed"} <= {key.look for key in page.legend}


def test_the_table_of_policies_has_the_place(shop: Plan) -> None:
    rows = texts(section(plan_page(shop).sections, "Policies, in declared order"))
    assert {row[0]: row[2] for row in rows} == {
        "only": "network of db",
        "few": "network of api",
        "slow": "ingress of api",
    }


def test_the_legend_of_a_plan_without_the_network_is_as_before() -> None:
    assert not {"network", "mixed"} & {key.look for key in plan_page(hotel()).legend}


def test_a_move_names_the_network_at_its_destination() -> None:
    move = Move("only", "db", Place.INGRESS, Place.NETWORK, ("db",), (), None)
    assert place_phrase(move, Place.NETWORK, (), TEXT) == "the network at `db`"
    assert place_phrase(move, Place.INGRESS, ("db",), TEXT) == "ingress of `db`"
