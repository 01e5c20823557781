"""The plan: its form, its bytes, and how invalid files are read."""

from __future__ import annotations

import contextlib
import json
import random
import typing
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.__main__ import main
from admc.compile import reviewed_plan
from admc.compile.pipeline import compile_program, load_program
from admc.exits import CommandError, Exit
from admc.overhead import rows as rows_module
from admc.plan import model as plan_module
from admc.plan.build import build
from admc.plan.model import Because, Plan
from admc.plan.read import PlanFormatError, from_json, previous_sides, read_plan
from admc.plan.to_json import to_json
from dsl.program import Side
from tests.admc.programs import SHOP, write
from tests.properties import examples

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "admc" / "plan.schema.json").read_text())
EXAMPLES = sorted((ROOT / "examples").glob("*/policies.adm"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compile_program(write(tmp_path_factory.mktemp("shop"), SHOP)).plan


def test_types_and_schema_name_the_same_fields() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert typing.get_type_hints(Plan).keys() == SCHEMA["properties"].keys() == {*SCHEMA["required"], "profile"}
    names = {
        "SourceLine": "line", "InputFile": "input", "Objective": "objective", "Solver": "solver",
        "PolicyLine": "policy", "AdmPort": "adm_port", "AdmPolicy": "adm_policy", "Because": "because",
        "AdmPlan": "adm", "Enforcement": "enforcement", "NotTaken": "not_taken", "DecisionPlan": "decision",
        "Closed": "closed", "Assumption": "assumption", "Warned": "warning",
    }  # fmt: skip
    overhead = {
        "AmountRow": "amount", "ComponentRow": "component_overhead", "HopRow": "hop_overhead",
        "PartRow": "part_overhead", "AdmRow": "adm_overhead", "TotalsRow": "totals", "AllTotals": "all_totals",
        "MissingRow": "missing", "ExtrapolatedRow": "extrapolated", "OverheadRow": "overhead",
        "ProfileRow": "profile", "Platform": "platform",
    }  # fmt: skip
    rows = {name: getattr(plan_module, name) for name in names} | {
        name: getattr(rows_module, name) for name in overhead
    }
    names |= overhead
    assert set(names.values()) == SCHEMA["$defs"].keys()
    for type_name, name in names.items():
        definition = SCHEMA["$defs"][name]
        assert set(rows[type_name]._fields) == definition["properties"].keys()
        assert set(definition["required"]) == definition["properties"].keys()
        assert definition["additionalProperties"] is False


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_fits_the_schema(program: Path) -> None:
    plan = compile_program(program).plan
    content = to_json(plan)
    jsonschema.validate(json.loads(content), SCHEMA)
    assert from_json(content) == plan


def test_what_the_plan_says(shop: Plan) -> None:
    document = json.loads(to_json(shop))
    jsonschema.validate(document, SCHEMA)
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


def test_every_enforcement_belongs_to_an_adm_and_a_decision(shop: Plan) -> None:
    policies = {adm.service: {(item.policy, item.side) for item in adm.policies} for adm in shop.adms}
    sides = previous_sides(shop)
    assert shop.enforcements
    for row in shop.enforcements:
        assert (row.policy, row.side) in policies[row.service]
        assert row.side in sides[row.policy, row.destination]
    for decision in shop.decisions:
        assert {item.side for item in decision.not_taken}.isdisjoint(decision.sides)
        for item in decision.not_taken:
            assert (item.reason == "free") == (item.message is None)


def test_one_row_is_one_line(shop: Plan) -> None:
    lines = to_json(shop).decode("ascii").splitlines()
    rows = [line for line in lines if line.startswith("  ")]
    assert len(rows) == sum(
        len(getattr(shop, name))
        for name in ("inputs", "policies", "adms", "enforcements", "decisions", "closed", "assumptions", "warnings")
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
    again = compile_program(write(tmp_path, SHOP), previous=previous_sides(shop)).plan
    assert again.decisions == shop.decisions
    assert again.solver.objectives[-1].value == 0


# ---- plans of earlier versions ----


def older(plan: Plan) -> Plan:
    """The plan in the form of version 1."""
    levels = tuple(level for level in plan.solver.objectives if level.metric not in ("closed", "hops"))
    return replace(plan, solver=plan.solver._replace(objectives=levels), schema_version=1)


def test_the_objective_ends_with_closed_destinations_overhead_and_hops(shop: Plan) -> None:
    levels = {level.metric: (level.value, level.bound) for level in shop.solver.objectives}
    assert list(levels) == ["adms", "closed", "overhead", "hops"]
    assert levels["closed"] == (len(shop.closed), len(shop.closed))
    assert levels["overhead"] == (None, None)
    value, bound = levels["hops"]
    assert value == bound
    assert value


def test_a_plan_of_version_1_is_an_earlier_plan(tmp_path: Path, shop: Plan) -> None:
    content = to_json(older(shop))
    assert b'"hops"' not in content
    read = from_json(content)
    assert read == older(shop)
    (tmp_path / "older.plan.json").write_bytes(content)
    assert main(["compile", str(write(tmp_path, SHOP)), "--previous", str(tmp_path / "older.plan.json")]) == 0
    written = read_plan(tmp_path / "policies.plan.json")
    assert written.schema_version == 2
    assert written.decisions == shop.decisions
    assert [level.metric for level in written.solver.objectives] == ["adms", "closed", "overhead", "hops", "changes"]


def test_a_plan_of_version_1_is_served_and_stays_one(tmp_path: Path, shop: Plan) -> None:
    program = load_program(write(tmp_path, SHOP))
    plan = older(shop)
    placed = reviewed_plan.checked(tmp_path / "policies.plan.json", plan, program)
    again = build(program, placed, None)
    assert again.schema_version == 1
    assert [level.metric for level in again.solver.objectives] == ["adms", "overhead"]
    assert from_json(to_json(again)).enforcements == shop.enforcements
    # A plan of version 2 with the levels of version 1 was changed by hand.
    with pytest.raises(CommandError) as refused:
        reviewed_plan.checked(tmp_path / "policies.plan.json", replace(plan, schema_version=2), program)
    assert refused.value.diagnostics[0].code == "ADM853"


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
        (b"{}", "no `schema_version`"),
        (b'{"schema_version": true}', "no `schema_version`"),
        (b'{"schema_version": "1"}', "no `schema_version`"),
        (b'{"schema_version": 1}', "lacks `adms`"),
        (b'{"schema_version": NaN}', "a number that JSON does not allow"),
        (b'{"schema_version": 1' + b"0" * 5000 + b"}", "a number that JSON does not allow"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_plan_says_why(content: bytes, said: str) -> None:
    error = rejected(content)
    assert said in str(error)
    assert error.code == "ADM804"


def test_a_newer_plan_has_its_own_code(shop: Plan) -> None:
    error = rejected(to_json(shop).replace(b'"schema_version": 2,', b'"schema_version": 3,', 1))
    assert error.code == "ADM805"


def test_a_wrong_field_is_named(shop: Plan) -> None:
    document = json.loads(to_json(shop))
    document["decisions"][1]["sides"] = ["sideways"]
    assert "`decisions[1].sides[0]` must be `ingress` or `egress`" in str(rejected(json.dumps(document).encode()))
    document = json.loads(to_json(shop))
    document["adms"][0]["extra"] = 1
    assert "`adms[0]` has an unknown field `extra`" in str(rejected(json.dumps(document).encode()))
    document = json.loads(to_json(shop))
    document["enforcements"][0]["port"] = 80.5
    assert "`enforcements[0].port` must be a whole number" in str(rejected(json.dumps(document).encode()))


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
    from admc.plan.summary import _why

    narrowed = Because("log", Side.INGRESS, ("a",), "R4", "`log` is narrowed to ingress", ())
    assert _why(narrowed) == "`log` is narrowed to ingress"
    assert _why(narrowed._replace(text="`db` is marked `no adm`")) == "`log`: `db` is marked `no adm`"
    assert _why(None) == ""
