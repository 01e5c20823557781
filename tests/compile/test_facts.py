"""The facts of a cluster as an input of a compile."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

import dsl
from admc.base.exits import CommandError, Exit
from admc.compile.facts import FACTS, NO_FACTS, ServiceFacts, from_json, to_json, with_facts
from admc.compile.pipeline import compile_program, place_program
from admc.compile.plan.build import build
from admc.compile.plan.read import from_json as plan_of
from admc.compile.plan.to_json import to_json as plan_json
from admc.compile.reviewed_plan import checked
from dsl.program import Mark
from tests.cli.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from admc.compile.plan.model import Plan
    from dsl.program import Program
    from tests.cli.command import Admc

TEXT = """app shop
service web { http 80 }
service search { http 8082 }
service rate { http 9000 }
service old { http 9001  no adm  untrusted  host_network }
call web -> search
call search -> rate
policy who = allow(callers: [search]) on * -> rate
"""
NOT_TRUSTED = "container `app` has NET_ADMIN"


def program(text: str = TEXT, **facts: ServiceFacts) -> Program:
    return with_facts(dsl.load_text(text), to_json(facts))


def plan(of: Program) -> Plan:
    return build(of, place_program(of)[0], None)


def conflict(of: Program) -> str:
    with pytest.raises(CommandError) as caught:
        place_program(of)
    assert caught.value.exit_code == Exit.NO_PLACEMENT
    (item,) = caught.value.diagnostics
    return "\n".join([item.message, item.cause or "", item.hint or "", *(each.message for each in item.related)])


def test_the_document_is_canonical() -> None:
    facts = {"search": ServiceFacts(untrusted="x", host_network=True), "geo": NO_FACTS, "a": ServiceFacts(no_adm="y")}
    assert to_json(facts) == (
        b'{"schema_version":1,"services":{"a":{"no_adm":"y"},"search":{"host_network":true,"untrusted":"x"}}}'
    )
    assert to_json(facts) == to_json(dict(reversed(facts.items())))
    assert from_json(to_json(facts)) == {name: found for name, found in facts.items() if found != NO_FACTS}


def test_no_facts_are_an_input_too() -> None:
    loaded = dsl.load_text(TEXT)
    empty = with_facts(loaded, to_json({}))
    assert [item.path for item in empty.inputs] == ["policies.adm", FACTS]
    assert empty.inputs[1].sha256 == hashlib.sha256(to_json({})).hexdigest()
    assert empty.services == loaded.services


def test_the_input_stands_in_the_order_of_paths() -> None:
    files = {"b.adm": b"", "d.adm": b""}
    loaded = dsl.load_text(f'use "d.adm"\nuse "b.adm"\n{TEXT}', read=files.__getitem__)
    assert [item.path for item in with_facts(loaded, to_json({})).inputs] == ["policies.adm", "b.adm", FACTS, "d.adm"]


def test_facts_make_worse_and_never_better() -> None:
    facts = ServiceFacts(host_network=True, no_adm="mirror pod", untrusted=NOT_TRUSTED)
    loaded = dsl.load_text(TEXT)
    found = with_facts(loaded, to_json({"rate": facts, "old": facts, "unknown": facts})).services
    worse = found["rate"]
    assert (worse.hosts_adm, worse.trusted, worse.host_network) == (False, False, True)
    assert found["old"] == loaded.services["old"]
    assert found["web"] is loaded.services["web"]
    assert "unknown" not in found


def test_a_mark_of_the_program_stays_beside_a_fact() -> None:
    text = "app shop\nservice rate {\n  http 9000\n  host_network\n}\n"
    (service,) = program(text, rate=ServiceFacts(untrusted=NOT_TRUSTED)).services.values()
    assert (service.host_network, service.trusted) == (True, False)
    assert service.place(Mark.HOST_NETWORK).line == 4
    assert service.place(Mark.UNTRUSTED).line == 2  # it is written nowhere
    assert (service.shown(Mark.HOST_NETWORK), service.shown(Mark.UNTRUSTED)) == (None, NOT_TRUSTED)


def test_a_fact_moves_a_policy_and_is_its_reason() -> None:
    moved = plan(program(search=ServiceFacts(untrusted=NOT_TRUSTED)))
    assert [adm.service for adm in moved.adms] == ["rate"]
    (because,) = moved.adms[0].because
    assert because.text == (
        f"`search` is not to be trusted in the cluster ({NOT_TRUSTED}), so `who` cannot be left to its egress"
    )
    assert because.lines[0].line == 3
    moved = plan(program(rate=ServiceFacts(no_adm="mirror pod")))
    assert [adm.service for adm in moved.adms] == ["search"]
    assert moved.adms[0].because[0].text == "`rate` hosts no ADM in the cluster (mirror pod)"
    assert moved.adms[0].because[0].lines[0].line == 4


def test_no_reason_says_that_the_program_says_it() -> None:
    facts = {
        "search": ServiceFacts(untrusted=NOT_TRUSTED),
        "rate": ServiceFacts(no_adm="mirror pod"),
    }
    text = conflict(program(**facts))
    assert "`rate` hosts no ADM in the cluster (mirror pod)" in text
    assert "change the pods of `rate`" in text
    assert "marked" not in text
    assert "remove `no adm`" not in text
    said = conflict(dsl.load_text(TEXT.replace("http 9000", "http 9000  no adm").replace("8082", "8082  untrusted")))
    assert "`rate` is marked `no adm`" in said
    assert "in the cluster" not in said


def test_what_both_say_is_the_programs() -> None:
    text = TEXT.replace("http 9000 }", "http 9000  no adm }")
    found = plan(program(text, rate=ServiceFacts(no_adm="mirror pod", untrusted=NOT_TRUSTED)))
    assert found.adms[0].because[0].text == "`rate` is marked `no adm`"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1 is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b'{"services": ' + b"[" * 100_000, "nested too deeply"),
        (b"{}", "`the document` lacks `schema_version`"),
        (b'{"schema_version": true, "services": {}}', "it has no `schema_version`"),
        (b'{"schema_version": 2, "services": {}}', "it has schema version 2, and this admc reads 1"),
        (b'{"schema_version": 1}', "`the document` lacks `services`"),
        (b'{"schema_version": 1, "services": {}, "x": 1}', "`the document` has an unknown field `x`"),
        (b'{"schema_version": 1, "services": {"a": {}, "a": {}}}', "`services` has `a` twice"),
        (b'{"schema_version": 1, "services": {"a": []}}', "`services.a` must be an object"),
        (
            b'{"schema_version": 1, "services": {"a": {"trusted": true}}}',
            "unknown field `trusted`",
        ),
        (b'{"schema_version": 1, "services": {"a": {"host_network": false}}}', "is not `true`"),
        (b'{"schema_version": 1, "services": {"a": {"host_network": 1}}}', "must be true or false"),
        (b'{"schema_version": 1, "services": {"a": {"host_network": null}}}', "must be true or false"),
        (b'{"schema_version": 1, "services": {"a": {"no_adm": ""}}}', "is no reason"),
        (b'{"schema_version": 1, "services": {"a": {"no_adm": true}}}', "`services.a.no_adm` must be a string"),
        (b'{"schema_version": 1, "services": {"a": {"no_adm": "a\\nb"}}}', "is no reason"),
        (json.dumps({"schema_version": 1, "services": {"a": {"no_adm": "x" * 201}}}).encode(), "is no reason"),
        (b" " * 8_000_001, "more than 8,000,000 bytes"),
    ],
)
def test_bad_documents(content: bytes, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        with_facts(dsl.load_text(TEXT), content)
    (item,) = caught.value.diagnostics
    assert (caught.value.exit_code, item.code) == (Exit.INPUT, "ADM945")
    assert said in item.message


def test_a_file_of_the_program_with_that_name() -> None:
    topology = json.dumps({"services": []}).encode()
    loaded = dsl.load_text(f'{TEXT}topology "{FACTS}"\n', read={FACTS: topology}.__getitem__)
    with pytest.raises(CommandError) as caught:
        with_facts(loaded, to_json({}))
    assert "a file of its own" in caught.value.diagnostics[0].message


def test_a_plan_rests_on_its_facts(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    facts = to_json({"search": ServiceFacts(untrusted=NOT_TRUSTED)})
    made = plan_of(plan_json(compile_program(path, facts=facts).plan))
    bare = dsl.load(path)
    assert checked(path, made, with_facts(bare, facts))
    for other, said in ((bare, "without them"), (with_facts(bare, to_json({})), "other facts of a cluster")):
        with pytest.raises(CommandError) as caught:
            checked(path, made, other)
        assert caught.value.diagnostics[0].code == "ADM852"
        assert said in str(caught.value.diagnostics[0].cause)
    without = plan_of(plan_json(compile_program(path).plan))
    with pytest.raises(CommandError) as caught:
        checked(path, without, with_facts(bare, facts))
    assert "made without facts of a cluster" in str(caught.value.diagnostics[0].cause)


def test_the_option_of_compile(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    facts = tmp_path / "facts" / "found.json"
    facts.parent.mkdir()
    facts.write_bytes(to_json({"search": ServiceFacts(untrusted=NOT_TRUSTED)}))
    assert admc("compile", str(path), "--facts", str(facts)).code == 0
    made = json.loads(path.with_suffix(".plan.json").read_bytes())
    assert [item["path"] for item in made["inputs"]] == ["policies.adm", FACTS]
    assert [adm["service"] for adm in made["adms"]] == ["rate"]
    assert admc("compile", str(path), "--facts", str(facts), "--check").code == 0
    stale = admc("compile", str(path), "--check")
    assert stale.code == 1
    assert "ADM815" in stale.err
    facts.write_text("{}")
    refused = admc("compile", str(path), "--facts", str(facts))
    assert refused.code == 1
    assert "ADM945" in refused.err
    missing = admc("compile", str(path), "--facts", str(tmp_path / "none.json"))
    assert "ADM802" in missing.err
    # An output never replaces an input.
    assert admc("compile", str(path), "--facts", str(facts), "-o", str(facts)).code == 1
