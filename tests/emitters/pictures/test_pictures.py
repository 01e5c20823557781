"""Pictures as text: golden, complete, deterministic, and safe for any name."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.compile.pipeline import load_program, place_program
from dsl.program import Place
from emitters.pictures import dot, mermaid, svg, svg_comparison
from emitters.pictures.svg import MAX_NODES
from tests.emitters.interception.build import external, placement, program, service
from tests.emitters.pictures.samples import hotel
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl.program import Program
    from solver.placement import Placement

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"
ALL = {"hotel.mmd": mermaid, "hotel.dot": dot, "hotel.svg": svg, "hotel-comparison.svg": svg_comparison}
IN_NETWORK = """
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
ALLOWED = {f"{SVG}{tag}" for tag in ("svg", "title", "desc", "g", "rect", "path", "polygon", "circle", "text")}


@pytest.mark.parametrize("name", ALL)
def test_golden(name: str) -> None:
    text = ALL[name](*hotel())
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def _words(text: str) -> list[str]:
    root = ET.fromstring(text)  # noqa: S314 - written by us
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_the_svg_says_what_is_where() -> None:
    text = svg(*hotel())
    words = _words(text)
    for name in ("internet", "maps", "frontend ×2", "search", "geo", "rate", "user", "mongo_rate", "mongo_user"):
        assert words.count(name) == 1
    assert "4 sidecars for 8 services, of which 7 can host one" in words
    assert "who_reads → rate" in words
    assert words.count("audit") == 1
    assert "cannot host one" in words
    assert "closed to undeclared callers" in words
    root = ET.fromstring(text)  # noqa: S314 - written by us
    assert root[0].tag == f"{SVG}title"
    assert root[1].tag == f"{SVG}desc"
    assert "search hosts a sidecar: search_quota at ingress" in (root[1].text or "")


def test_a_policy_in_the_network_is_a_row_of_its_destination(tmp_path: Path) -> None:
    path = tmp_path / "shop.adm"
    path.write_text(IN_NETWORK)
    made = load_program(path)
    placed, _ = place_program(made)
    assert {decision.policy: decision.place for decision in placed.decisions} == {
        "only": Place.NETWORK,
        "few": Place.NETWORK,
        "slow": Place.INGRESS,
    }
    picture = svg(made, placed)
    titles = [title.text or "" for title in ET.fromstring(picture).iter(f"{SVG}title")]  # noqa: S314 - written by us
    assert "web → db: only in the network" in titles
    assert "web → api: few in the network; slow at ingress" in titles
    assert any(
        title.startswith("db: 1 replica, cannot host a sidecar, only in the network, closed") for title in titles
    )
    assert any(title.startswith("api: 1 replica, few in the network, slow at ingress, closed") for title in titles)
    assert {"only", "few", "slow", "enforced by a NetworkPolicy alone"} <= set(_words(picture))
    assert "db has no sidecar: only in the network." in picture
    assert 'label="db\\n(closed)\\nnetwork: only"' in dot(made, placed)
    assert 'label="few in the network\\nslow at ingress", color="#0f766e"' in dot(made, placed)
    chart = mermaid(made, placed)
    assert '["db<br/>(closed)<br/>network: only"]:::cannot' in chart
    assert '==>|"only in the network"|' in chart
    assert "stroke:#1d4ed8" in chart


def test_a_picture_without_the_network_has_no_sign_of_it() -> None:
    for draw in ALL.values():
        assert "network" not in draw(*hotel()).lower().replace("networkpolicy", "")
        assert "#1d4ed8" not in draw(*hotel())


def test_the_comparison_counts_both_meshes() -> None:
    words = _words(svg_comparison(*hotel()))
    assert "7 sidecars" in words
    assert "every service that can host one gets a sidecar" in words
    assert "4 sidecars" in words
    assert "43% fewer" in words
    assert words.count("mongo_rate") == 2


def test_no_placement_is_too_small() -> None:
    made = program([service("alone")], [])
    for draw in ALL.values():
        assert "alone" in draw(made, placement(made, {}))
    empty = program([], [])
    for draw in ALL.values():
        assert draw(empty, placement(empty, {}))


def _large(count: int) -> tuple[Program, Placement]:
    made = program(
        [service(f"s{index}") for index in range(count)],
        {(f"s{index * 7 % count}", f"s{(index * 13 + 5) % count}") for index in range(3 * count)},
        ["quota"],
    )
    return made, placement(made, {("quota", f"s{index}"): "ingress" for index in range(0, count, count // 20)})


def test_a_large_application_is_drawn_round_its_adms_and_says_so() -> None:
    made, placed = _large(2000)
    words = _words(svg(made, placed))
    (said,) = [word for word in words if "left out" in word]
    assert "for 2,000 services" in said
    hosts = {adm.service for adm in placed.adms}
    assert hosts <= set(words)
    drawn = [word for word in words if re.fullmatch(r"s\d+", word)]
    assert len(drawn) == len(set(drawn)) <= MAX_NODES
    assert f"{2000 - len(drawn):,}" in said
    assert any("left out" in word for word in _words(svg_comparison(made, placed)))
    # The text formats leave the drawing to others, and so hold everything.
    assert len(re.findall(r"^  n\d+\[", mermaid(made, placed), re.MULTILINE)) == 2000
    assert len(re.findall(r"^  n\d+ \[", dot(made, placed), re.MULTILINE)) == 2000
    assert "maxEdges" in mermaid(made, placed)


def test_more_adms_than_fit_are_counted() -> None:
    made = program([service(f"s{index}") for index in range(500)], [("s0", f"s{index}") for index in range(500)], ["q"])
    words = _words(svg(made, placement(made, {("q", f"s{index}"): "ingress" for index in range(500)})))
    assert any("left out: 200, of which 200 with a sidecar" in word for word in words)


@pytest.mark.parametrize("draw", [svg, svg_comparison])
def test_the_densest_graph_that_is_drawn_ends(draw: Callable[[Program, Placement], str]) -> None:
    names = [f"s{index}" for index in range(90)]
    made = program([service(name) for name in names], [(a, b) for a in names for b in names], [])
    assert _words(draw(made, placement(made, {})))


# Names are checked by the language; here they may be anything at all.
ANY = st.text(min_size=1, max_size=12)
AWKWARD = st.sampled_from(
    ['"', "<b>", "]]>", "&amp;", "\\", "end", "--> x", "#34;", "\n", "\0", "\ud800", "`", "%%", "日本", "a\\n", "1. a"]
)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Program, Placement]:
    names = draw(st.lists(ANY | AWKWARD, min_size=1, max_size=6, unique=True))
    outside = draw(st.lists(ANY.filter(lambda name: name not in names), max_size=2, unique=True))
    calls = draw(
        st.lists(st.tuples(st.sampled_from(names + outside), st.sampled_from(names)), max_size=12, unique=True)
    )
    policies = draw(st.lists(ANY | AWKWARD, min_size=1, max_size=3, unique=True))
    made = program([*map(service, names), *map(external, outside)], calls, policies, app=draw(ANY | AWKWARD))
    sides = st.sampled_from(["ingress", "egress", "ingress egress"])
    keys = st.tuples(st.sampled_from(policies), st.sampled_from(names))
    decisions = draw(st.dictionaries(keys, sides, max_size=6))
    # An outside party hosts nothing.
    entered = {destination for source, destination in calls if source in outside}
    decisions = {key: "ingress" if key[1] in entered else sides for key, sides in decisions.items()}
    open_ = draw(st.sets(st.sampled_from(sorted(decisions)))) if decisions else ()
    return made, placement(made, decisions, open_=open_)


@examples(60)
@given(scenes())
def test_svg_holds_every_service_once_whatever_the_names(scene: tuple[Program, Placement]) -> None:
    made, placed = scene
    for draw, times in ((svg, 1), (svg_comparison, 2)):
        text = draw(made, placed)
        text.encode()
        root = ET.fromstring(text)  # noqa: S314 - written by us
        assert {element.tag for element in root.iter()} <= ALLOWED
        assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
        boxes = len(made.services) + len(made.externals)
        shapes = list(root.iter(f"{SVG}title"))
        if draw is svg:
            told = [title.text or "" for title in shapes]
            assert sum(" replica" in item for item in told) == len(made.services)
            assert sum("outside the mesh" in item for item in told) == len(made.externals)
        else:
            inside = list(root.iter(f"{SVG}g"))
            assert sum(len(group.findall(f"{SVG}text")) for group in inside) == times * boxes
        assert draw(made, placed) == text


@examples(60)
@given(scenes())
def test_mermaid_is_made_of_known_lines_whatever_the_names(scene: tuple[Program, Placement]) -> None:
    made, placed = scene
    text = mermaid(made, placed)
    text.encode()
    label = r"(?:[\w ,:→×()-]|#\d+;|<br/>|</?b>)*"
    line = re.compile(
        rf'flowchart LR|  accTitle: [\w -]*|  n\d+(\["{label}"\]|\[\["{label}"\]\]|\(\["{label}"\]\)):::\w+'
        rf'|  n\d+ (-->|==>\|"{label}"\|) n\d+|  classDef [\w :;#,-]+|  linkStyle [\d,]+ stroke:#\w+'
    )
    wrong = [item for item in text.split("\n")[:-1] if not line.fullmatch(item)]
    assert not wrong
    nodes = re.findall(r"^  (n\d+)[\[(]", text, re.MULTILINE)
    assert len(nodes) == len(set(nodes)) == len(made.services) + len(made.externals)
    assert mermaid(made, placed) == text


@examples(60)
@given(scenes())
def test_dot_quotes_every_name(scene: tuple[Program, Placement]) -> None:
    made, placed = scene
    text = dot(made, placed)
    text.encode()
    quoted = r'"(?:[^"\\\n]|\\\\|\\"|\\n)*"'
    value = rf"(?:{quoted}|[\w.]+)"
    attributes = rf"\[\w+={value}(?:, \w+={value})*\]"
    line = re.compile(
        rf"digraph {quoted} {{|  n\d+ {attributes};|  n\d+ -> n\d+(?: {attributes})?;|  (?:node|edge) {attributes};"
        r"|  rankdir=LR; bgcolor=white; nodesep=0\.2; ranksep=0\.9;|\}"
    )
    wrong = [item for item in text.split("\n")[:-1] if not line.fullmatch(item)]
    assert not wrong
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == len(made.services) + len(made.externals)
    assert dot(made, placed) == text
