"""The plan: its form, its bytes, and how invalid files are read."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.base.exits import CommandError, Exit
from admc.compile.pipeline import compile_program
from admc.compile.plan.model import Because, Plan
from admc.compile.plan.previous import places_of
from admc.compile.plan.read import PlanFormatError, from_json, read_plan
from admc.compile.plan.to_json import to_json
from admc.serve.compiling.inputs import Inputs
from admc.serve.compiling.reviewed_plan import placed as placed_by
from dsl.program import Side
from tests.cli.programs import SHOP, write
from tests.properties import examples

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "admc" / "plan.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = sorted((ROOT / "examples").glob("*/policies.adm"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compile_program(write(tmp_path_factory.mktemp("shop"), SHOP)).plan


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_fits_the_schema(program: Path) -> None:
    plan = compile_program(program).plan
    content = to_json(plan)
    VALIDATOR.validate(json.loads(content))
    assert from_json(content) == plan


def test_what_the_plan_says(shop: Plan) -> None:
    document = json.loads(to_json(shop))
    VALIDATOR.validate(document)
    assert document["app"] == "shop"
    assert [item["path"] for item in document["inputs"]] == ["policies.adm"]
    assert document["solver"]["status"] == "optimal"
    assert document["overhead"] is None
    assert [policy["name"] for policy in document["policies"]] == ["quota", "who_reads", "flaky_geo", "unused"]
    assert [policy["line"] for policy in document["policies"]] == [
        {"path": "policies.adm", "line": number} for number in (15, 16, 17, 18)
    ]
    # `retry` works at the sender only, so `search` has an ADM in every correct placement.
    search = next(adm for adm in document["adms"] if adm["service"] == "search")
    assert {"direction": "egress", "service": "geo", "port": 8083} in search["ports"]
    retry = next(because for because in search["because"] if because["policy"] == "flaky_geo")
    assert retry["rule"] == "R4"
    assert retry["destinations"] == ["geo"]
    assert retry["lines"]
    for adm in document["adms"]:
        assert {item["policy"] for item in adm["because"]} == {item["policy"] for item in adm["policies"]}
        assert adm["directions"] == sorted({item["side"] for item in adm["policies"]}, reverse=True)


@pytest.mark.parametrize(("statement", "listed"), [("", False), ("network_policies enforced\n", True)])
def test_the_network_is_listed_only_where_the_program_states_it(tmp_path: Path, statement: str, listed: bool) -> None:
    content = to_json(compile_program(write(tmp_path, SHOP + statement)).plan)
    VALIDATOR.validate(json.loads(content))
    places = {row["name"]: row["content"]["places"] for row in json.loads(content)["policies"]}
    assert [name for name, allowed in places.items() if "network" in allowed] == (["who_reads"] if listed else [])
    assert listed or b'"network"' not in content


def test_every_enforcement_belongs_to_an_adm_and_a_decision(shop: Plan) -> None:
    policies = {adm.service: {(item.policy, item.side) for item in adm.policies} for adm in shop.adms}
    places = places_of(shop)
    assert shop.enforcements
    for row in shop.enforcements:
        assert (row.policy, *row.place.sides) in policies[row.service]
        assert row.place in places[row.policy, row.destination].ends
    for decision in shop.decisions:
        assert {item.place for item in decision.not_taken}.isdisjoint(decision.place.ends)
        for item in decision.not_taken:
            assert (item.reason == "free") == (item.message is None)


def test_one_row_is_one_line(shop: Plan) -> None:
    lines = to_json(shop).decode("ascii").splitlines()
    rows = [line for line in lines if line.startswith("  ")]
    assert len(rows) == sum(
        len(getattr(shop, name))
        for name in (
            "inputs",
            "services",
            "externals",
            "calls",
            "policies",
            "adms",
            "enforcements",
            "decisions",
            "closed",
            "assumptions",
            "warnings",
        )
    )
    for row in rows:
        assert json.loads(row.removesuffix(","))


def lineless(document: object) -> object:
    """A plan without line numbers and digests, which is all that moved lines may change."""
    if isinstance(document, dict):
        return {
            key: None if key == "sha256" or (key == "line" and isinstance(value, int)) else lineless(value)
            for key, value in document.items()
        }
    return [lineless(item) for item in document] if isinstance(document, list) else document


@pytest.mark.parametrize("seed", range(8))
def test_moved_lines_change_line_numbers_only(tmp_path: Path, shop: Plan, seed: int) -> None:
    lines = [line for line in SHOP.splitlines() if line]
    policies = [line for line in lines if line.startswith("policy")]
    others = [line for line in lines if not line.startswith("policy")]
    chance = random.Random(seed)  # noqa: S311 - a shuffle of a test
    chance.shuffle(others)
    merged = others
    for at, line in zip(sorted(chance.sample(range(len(others)), len(policies))), policies, strict=True):
        merged.insert(at, line)
    moved = compile_program(write(tmp_path, "\n".join(merged) + "\n")).plan
    assert lineless(json.loads(to_json(moved))) == lineless(json.loads(to_json(shop)))


def test_the_nearest_plan_is_itself(tmp_path: Path, shop: Plan) -> None:
    assert compile_program(write(tmp_path, SHOP), previous=shop).plan == shop


def test_the_objective_ends_with_closed_destinations_overhead_and_hops(shop: Plan) -> None:
    levels = {level.metric: (level.value, level.bound) for level in shop.solver.objectives}
    assert list(levels) == ["adms", "closed", "overhead", "hops"]
    assert levels["closed"] == (len(shop.closed), len(shop.closed))
    assert levels["overhead"] == (None, None)
    value, bound = levels["hops"]
    assert value == bound
    assert value


# ---- a plan that is served ----

EDITS: dict[str, tuple[Callable[[Any], object], str]] = {
    "app": (lambda plan: plan.update(app="other"), "`app`"),
    "replicas": (lambda plan: plan["services"][0].update(replicas=9), "`services[0]`"),
    "a rate": (lambda plan: plan["calls"][0].update(rate=1.5), "`calls[0]`"),
    "one call less": (lambda plan: plan["calls"].pop(), "4 `calls`"),
    "an argument": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(value=401),
        "`policies[0]`",
    ),
    "its type": (lambda plan: plan["policies"][2]["content"]["arguments"][0].update(value=3.0), "`policies[2]`"),
    "a direction": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(weaker="added"),
        "`policies[0]`",
    ),
    "a match": (lambda plan: plan["policies"][0]["content"].update(when='path == "/"'), "`policies[0]`"),
    "sidecars": (lambda plan: plan["adms"][0].update(replicas=7), "`adms[0]`"),
    "an assumption": (lambda plan: plan["assumptions"].pop(), "`assumptions`"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_served_plan_agrees_with_its_program(tmp_path: Path, shop: Plan, name: str) -> None:
    write(tmp_path, SHOP)
    path = tmp_path / "policies.plan.json"
    path.write_bytes(to_json(shop))
    placed_by(path, Inputs(path))
    edit, said = EDITS[name]
    document = json.loads(to_json(shop))
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CommandError) as refused:
        placed_by(path, Inputs(path))
    (found,) = refused.value.diagnostics
    assert found.code == "ADM852"
    assert said in str(found.cause)


def test_a_plan_is_served_if_only_texts_differ(tmp_path: Path, shop: Plan) -> None:
    write(tmp_path, SHOP)
    path = tmp_path / "policies.plan.json"
    document = json.loads(to_json(shop))
    document["adms"][0]["because"][0]["text"] = "another text"
    document["warnings"] = []
    path.write_text(json.dumps(document))
    placed_by(path, Inputs(path))


# ---- files that are no plans ----


def rejected(content: bytes) -> PlanFormatError:
    with pytest.raises(PlanFormatError) as error:
        from_json(content)
    return error.value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1 is not JSON"),
        (b"{", "cut short"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"[]", "not a JSON object"),
        (b"{}", "lacks `schema_version`"),
        (b'{"schema_version": true}', "no `schema_version`"),
        (b'{"schema_version": "1"}', "no `schema_version`"),
        (b'{"schema_version": 5}', "lacks `app`"),
        (b'{"schema_version": 4}', "it has schema version 4, and this admc reads 5"),
        (b'{"schema_version": NaN}', "no `schema_version`"),
        (b'{"schema_version": 1' + b"0" * 5000 + b"}", "a number that JSON does not allow"),
        (b'{"app":' + b"[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_plan_says_why(content: bytes, said: str) -> None:
    error = rejected(content)
    assert said in str(error)
    assert error.code == "ADM804"


def test_a_newer_plan_has_its_own_code(shop: Plan) -> None:
    error = rejected(to_json(shop).replace(b'"schema_version": 5,', b'"schema_version": 6,', 1))
    assert error.code == "ADM805"


def test_a_wrong_field_is_named(shop: Plan) -> None:
    document = json.loads(to_json(shop))
    document["decisions"][1]["place"] = "sideways"
    error = rejected(json.dumps(document).encode())
    assert "`decisions[1].place` must be `ingress` or `egress` or `network` or `both`" in str(error)
    document = json.loads(to_json(shop))
    document["adms"][0]["extra"] = 1
    assert "`adms[0]` has an unknown field `extra`" in str(rejected(json.dumps(document).encode()))
    document = json.loads(to_json(shop))
    document["enforcements"][0]["port"] = 80.5
    assert "`enforcements[0].port` must be a whole number" in str(rejected(json.dumps(document).encode()))


HOSTILE: dict[str, tuple[Callable[[Any], object], str]] = {
    "services": (lambda plan: plan.pop("services"), "lacks `services`"),
    "null services": (lambda plan: plan.update(services=None), "`services` must be a list"),
    "null externals": (lambda plan: plan.update(externals=None), "`externals` must be a list"),
    "null calls": (lambda plan: plan.update(calls=None), "`calls` must be a list"),
    "null content": (lambda plan: plan["policies"][0].update(content=None), "`policies[0].content` must be an object"),
    "no content": (lambda plan: plan["policies"][0].pop("content"), "`policies[0]` lacks `content`"),
    "two services": (lambda plan: plan["services"].append(plan["services"][0]), "`services[5]` repeats `frontend`"),
    "a service that is external": (
        lambda plan: plan["externals"].append({**plan["externals"][0], "name": "geo"}),
        "repeats `geo`",
    ),
    "two calls": (lambda plan: plan["calls"].append(plan["calls"][0]), "`calls[5]` repeats `internet, frontend, 8080`"),
    "two policies": (lambda plan: plan["policies"].append(plan["policies"][0]), "`policies[4]` repeats `quota`"),
    "two decisions": (lambda plan: plan["decisions"].append(plan["decisions"][0]), "repeats `quota, "),
    "two arguments": (
        lambda plan: plan["policies"][0]["content"]["arguments"].append(plan["policies"][0]["content"]["arguments"][0]),
        "`policies[0].content.arguments[3]` repeats `requests`",
    ),
    "a call of a stranger": (lambda plan: plan["calls"][0].update(source="x" * 99), f"names `{'x' * 37}...`, which"),
    "a call to another port": (lambda plan: plan["calls"][0].update(port=1), "`calls[0].port` is no port of `"),
    "an unknown sender": (
        lambda plan: plan["policies"][1]["content"].update(sources=["stranger"]),
        "`policies[1].content.sources[0]` names `stranger`",
    ),
    "an unknown policy": (
        lambda plan: plan["enforcements"][0].update(policy="no"),
        "`enforcements[0].policy` names `no`",
    ),
    "an unknown host": (lambda plan: plan["adms"][0].update(service="no"), "`adms[0].service` names `no`"),
    "garbage": (lambda plan: plan["policies"][0]["content"].update(when="path =="), "`policies[0].content.when` is no"),
    "deep garbage": (lambda plan: plan["policies"][0]["content"].update(when="(" * 99_999), "is no match: "),
    "another form": (
        lambda plan: plan["policies"][0]["content"].update(when='(path == "/")'),
        "is no match: it is not in canonical form",
    ),
    "a wrong direction": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(weaker="up"),
        "weaker` must be `more` or `less` or `added` or `removed`",
    ),
    "an object as a value": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(value={}),
        "arguments[0].value` must be a number",
    ),
    "a huge number": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(value=1 << 200),
        "arguments[0].value` must be a number",
    ),
    "deep lists": (
        lambda plan: plan["policies"][0]["content"]["arguments"][0].update(value=nested(400)),
        "it is nested too deeply",
    ),
    "half of a character": (lambda plan: plan.update(app="a\ud800"), "half of a character"),
}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", HOSTILE)
def test_a_plan_whose_rows_do_not_fit_together_is_refused(shop: Plan, name: str) -> None:
    document = json.loads(to_json(shop))
    spoil, said = HOSTILE[name]
    spoil(document)
    error = rejected(json.dumps(document).encode())
    assert said in str(error)
    assert error.code == "ADM804"


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.startswith("null ")])
def test_the_schema_refuses_null_where_rows_stand(shop: Plan, name: str) -> None:
    document = json.loads(to_json(shop))
    assert VALIDATOR.is_valid(document)
    HOSTILE[name][0](document)
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000])
def test_an_argument_is_a_finite_number(shop: Plan, value: str) -> None:
    text = re.sub(r'"value": 400\b', f'"value": {value}', to_json(shop).decode(), count=1)
    assert value in text
    rejected(text.encode())


@examples(60)
@given(st.data())
def test_a_plan_that_was_cut_short_is_refused(shop: Plan, data: st.DataObject) -> None:
    content = to_json(shop)
    cut = data.draw(st.integers(0, len(content) - 3))
    rejected(content[:cut])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@examples(150)
@given(values, st.data())
def test_any_value_in_any_place_is_read_or_refused(shop: Plan, value: object, data: st.DataObject) -> None:
    document = json.loads(to_json(shop))
    at = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    with contextlib.suppress(PlanFormatError):
        assert isinstance(from_json(json.dumps(document).encode()), Plan)


def test_reading_a_plan_file(tmp_path: Path, shop: Plan) -> None:
    path = tmp_path / "a.plan.json"
    path.write_bytes(to_json(shop))
    assert read_plan(path) == shop
    path.write_bytes(to_json(shop)[:-40])
    with pytest.raises(CommandError) as error:
        read_plan(path)
    assert error.value.exit_code is Exit.INPUT
    assert error.value.diagnostics[0].code == "ADM804"


def test_a_reason_in_the_summary_names_its_policy_once() -> None:
    from admc.compile.plan.summary import _why

    narrowed = Because("log", Side.INGRESS, ("a",), "R4", "`log` is narrowed to ingress", ())
    assert _why(narrowed) == "`log` is narrowed to ingress"
    assert _why(replace(narrowed, text="`db` is marked `no adm`")) == "`log`: `db` is marked `no adm`"
    assert _why(None) == ""


def test_a_plan_that_closes_a_destination_rests_on_labels(tmp_path: Path) -> None:
    """The NetworkPolicy selects the destination and its senders by them."""
    text = (
        'app shop\nexternal outside { cidr "10.9.0.0/16" }\nservice web, api, db { tcp 5432 }\nservice idle { tcp 1 }\n'
        "call outside -> api\ncall api -> db\npolicy readers = allow(callers: [api]) on * -> db\n"
        "@ingress\npolicy known = allow(callers: [outside]) on * -> api\n"
    )
    found = compile_program(write(tmp_path, text)).plan
    assert [item.about for item in found.assumptions if "carry the labels" in item.text] == [("api", "db")]
    without = compile_program(write(tmp_path, text.replace("policy readers", "@ingress\npolicy readers"))).plan
    assert not without.closed
    assert not any("carry the labels" in item.text for item in without.assumptions)
