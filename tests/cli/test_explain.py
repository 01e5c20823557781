"""Explanations are true: reasons are the placement's, and what would remove an ADM is solved, not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admc.__main__ import main
from admc.compile.pipeline import place_program
from dsl.kinds.prelude import kinds
from dsl.vocabulary.guide import guides
from tests.cli.programs import SHOP, write
from tests.dsl.guide import FILES, program
from tests.dsl.programs import load


class Explain:
    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capfd = capfd

    def __call__(self, text: str, *names: str) -> dict[str, Any]:
        path = write(self._folder, text)
        code = main(["explain", str(path), *names, "--format", "json"])
        out, err = self._capfd.readouterr()
        assert code == 0, err + out
        found: dict[str, Any] = json.loads(out)
        return found


@pytest.fixture
def explain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Explain:
    return Explain(tmp_path, capfd)


def said(explanation: dict[str, Any], heading: str) -> list[str]:
    (part,) = [part for part in explanation["sections"] if part["heading"] == heading]
    return [point["text"] for point in part["points"]]


def test_an_application(explain: Explain) -> None:
    found = explain(SHOP)
    assert found["answer"] == "1 of 4 services that can host one has an ADM (5 services in all)"
    assert any("`flaky_geo` must be at the egress of `search`" in text for text in said(found, "ADM of `search`"))


def test_an_adm_that_a_line_forces(explain: Explain) -> None:
    found = explain(SHOP, "search")
    assert found["answer"] == "`search` has an ADM"
    why = said(found, "why it is there")
    assert any(text.startswith("`flaky_geo` must be at the egress of `search`, towards `geo`") for text in why)
    assert any("by choice" in text for text in why)
    removal = "\n".join(said(found, "what would remove it"))
    assert "`flaky_geo`" in removal
    # The remedy is a real one: without that line nothing keeps the ADM there.
    without = "\n".join(line for line in SHOP.splitlines() if "flaky_geo" not in line) + "\n"
    freed = explain(without, "search")
    if freed["answer"] == "`search` has an ADM":
        assert "possible" in "\n".join(said(freed, "what would remove it"))


VERTEX = """\
app star
service hub { http 80 }
service a, b, c { http 80 }
call hub -> a, b, c
policy count = request_count() on hub -> a, b, c
"""


def test_an_adm_that_only_the_objective_wants(explain: Explain) -> None:
    found = explain(VERTEX, "hub")
    (removal,) = said(found, "what would remove it")
    assert removal == "`no adm` at `hub` is possible, but costs 2 more in total: `a`, `b` and `c` would get one instead"


def test_a_service_without_an_adm(explain: Explain) -> None:
    found = explain(VERTEX, "a")
    assert found["answer"] == "`a` has no ADM: other services enforce its policies"
    where = said(found, "where its policies are")
    assert where[0] == "`count` towards `a`: at the egress of `hub`"
    # Later levels than the number of ADMs decide, too: closed destinations and hops.
    assert (
        where[1] == "`count` could be at the ingress of `a`: no rule forbids it, but it is no better for the objective"
    )
    assert said(explain(SHOP, "mongo_rate"), "can it have one") == ["no: it is marked `no adm`"]


def test_a_policy(explain: Explain) -> None:
    found = explain(SHOP, "flaky_geo")
    assert found["answer"] == "`flaky_geo` is enforced for `geo`"
    where = said(found, "where it is enforced")
    assert where[0] == "towards `geo`: at the egress of `search`"
    assert where[1].startswith("`flaky_geo` cannot be at the ingress of `geo`: ")
    assert where[1].endswith("(R4)")


def test_a_name_of_a_service_and_a_policy(explain: Explain) -> None:
    found = explain(VERTEX.replace("count =", "hub ="), "hub")
    assert found["subject"] == "service `hub` and policy `hub`"


def test_names_that_are_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, SHOP)
    assert main(["explain", str(path), "serach"]) == 1
    assert "did you mean `search`?" in capfd.readouterr().err
    assert main(["explain", str(path), "internet"]) == 1
    assert "outside the mesh" in capfd.readouterr().err


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_the_other_formats(tmp_path: Path, capfd: pytest.CaptureFixture[str], format_: str) -> None:
    assert main(["explain", str(write(tmp_path, SHOP)), "search", "--format", format_]) == 0
    out = capfd.readouterr().out
    assert "flaky" in out
    assert "policies.adm:17" in out


def test_a_built_in_kind(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "rate_limit", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["answer"] == f"{guides()['rate_limit'].sentence}; it is for `grpc` and `http`"
    assert said(found, "where it can be enforced") == [
        "at ingress, at the stage `filter`",
        "at egress, at the stage `filter`",
    ]
    assert "(R5)" in said(found, "rules that apply to it")[0]
    declared = found["examples"][-1]["text"].splitlines()
    assert declared[0] == "@ingress @egress"
    assert declared[-2].startswith("kind rate_limit(requests: int")
    assert said(found, "its arguments") == [
        "`requests`: the number of requests that are admitted in each period (a whole number, from 1 to 1000000000); "
        "more is weaker",
        "`per`: the period (a duration such as `250ms`, in `us`, `ms`, `s`, `m`, `h`, `d`); less is weaker",
        "`burst`: the largest number that is admitted at once (a whole number, from 1 to 1000000000); "
        "`requests` unless given; more is weaker",
    ]
    assert said(found, "in other meshes")[0] == "Envoy: the HTTP filter `local_ratelimit`"


def test_the_declaration_of_a_kind_that_is_broken_over_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    declared = """\
// What it is for.
@ingress
@effect(reads(header),
  counts)
// It has a body.
kind slow(after: duration,
  names: [string] = []) for http,
  grpc template "slow.yaml\""""
    above = "@ingress policy before = deny(\n) on frontend -> search\n"
    path = write(tmp_path, f"{SHOP}{above}{declared}\npolicy last = deny() on frontend -> search\n")
    write(tmp_path, "name: slow\n", "slow.yaml")
    assert main(["explain", str(path), "slow", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["examples"][-1]["text"] == declared
    assert [text.split(":")[0] for text in said(found, "its arguments")] == ["`after`", "`names`"]


@pytest.mark.long
def test_every_built_in_kind_says_what_each_argument_takes(capfd: pytest.CaptureFixture[str]) -> None:
    for name, declared in kinds().items():
        assert main(["explain", name, "--format", "json"]) == 0
        found = json.loads(capfd.readouterr().out)
        parameters = declared.kind.parameters
        assert len(found["examples"]) > 1
        listed = said(found, "its arguments") if parameters else []
        for parameter, text in zip(parameters, listed, strict=True):
            assert text.startswith(f"`{parameter.name}`: ")
            optional = parameter.name in declared.defaults
            direction = f"{'' if parameter.type.element is None else 'an item '}{parameter.weaker} is weaker"
            said_last = text.rpartition("; ")[2]
            assert (said_last == direction) == (parameter.weaker is not None), text
            before = text if parameter.weaker is None else text.removesuffix(f"; {direction}")
            assert optional == before.endswith(("unless given", "; may be left out")), text


def test_all_kinds(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "kinds", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    listed = [point["text"] for part in found["sections"] for point in part["points"]]
    for name in kinds():
        assert sum(text.startswith(f"`{name}` ") for text in listed) == 1


@pytest.mark.parametrize(
    ("subject", "hint"),
    [
        ("circuit_breaker", "did you mean `circuit_breaking`?"),
        ("FaultInjection", "did you mean `fault_delay` or `fault_abort`?"),
        ("knids", "did you mean `kinds`?"),
        ("gibberish", "`admc explain kinds` lists the kinds"),
    ],
)
def test_a_name_of_another_mesh(capfd: pytest.CaptureFixture[str], subject: str, hint: str) -> None:
    assert main(["explain", subject]) == 1
    assert hint in capfd.readouterr().err


def test_a_folder_hides_no_kind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("retry", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "retry"]) == 0
    assert main(["explain", "other"]) == 1
    assert "because: it is a folder" in capfd.readouterr().err


def test_a_kind_of_the_program(explain: Explain, tmp_path: Path) -> None:
    declared = "// slow\n@egress\nkind own(\n  after: duration = 1s,\n  what: int?\n) for http"
    (tmp_path / "own.yaml").write_text('"@type": type.googleapis.com/x\na: ${after}\nb: ${what}\n')
    found = explain(f'{SHOP}\n{declared} template "own.yaml"\n', "own")
    assert found["answer"] == "`own` is a kind of policy of this program, for `http`"
    assert said(found, "its arguments") == [
        "`after`: a duration such as `250ms`, in `us`, `ms`, `s`, `m`, `h`, `d`; `1s` unless given",
        "`what`: a whole number such as `10`; may be left out",
    ]
    assert found["examples"] == [{"label": "declared", "text": f'{declared} template "own.yaml"'}]


def test_a_rule(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "r6"]) == 0
    assert capfd.readouterr().out.startswith("ADM606: the declared order cannot be kept (R6)")


def test_a_policy_that_applies_to_nothing_says_why(explain: Explain) -> None:
    assert said(explain(SHOP, "unused"), "where it is enforced")[0].startswith("nowhere: no declared call")


def test_examples_have_no_blank_lines_round_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ADM201"]) == 0
    out = capfd.readouterr().out
    assert not out.endswith("\n\n")
    assert all(line == line.rstrip() for line in out.splitlines())


ORDER = """\
app order
service web, api { http 80 }
call web -> api
"""
RETRY = "policy again = retry(attempts: 3) on web -> api"
MEANINGS = [
    (
        "timeout(after: 2s)",
        "`p` limits all attempts of `again` together",
        "`p` limits each attempt of `again` by itself",
    ),
    ("rate_limit(requests: 5, per: 1s)", "each request of `again` once", "`p` meets each attempt of `again`"),
    ("request_count()", "each request of `again` once", "`p` meets each attempt of `again`"),
    ("fault_delay(delay: 1s)", "each request of `again` once", "`p` meets each attempt of `again`"),
    ('lua(script: "f.lua")', "each request of `again` once", "`p` meets each attempt of `again`"),
    ("fault_abort(status: 503)", "what it refuses is not repeated", "what it refuses may be repeated"),
]


@pytest.mark.parametrize(("kind", "before", "after"), MEANINGS)
def test_what_the_order_with_a_retry_means(
    explain: Explain, tmp_path: Path, kind: str, before: str, after: str
) -> None:
    (tmp_path / "f.lua").write_text("function envoy_on_request(handle) end\n")
    policy = f"policy p = {kind} on web -> api"
    for lines, meaning in (((policy, RETRY), before), ((RETRY, policy), after)):
        for name in ("p", "again"):
            (said_,) = said(explain(ORDER + "\n".join(lines) + "\n", name), "what its place in the order means")
            assert meaning in said_


def test_what_the_order_of_a_delay_and_a_timeout_means(explain: Explain) -> None:
    delay, timeout = "policy d = fault_delay(delay: 1s) on web -> api", "policy t = timeout(after: 2s) on web -> api"
    for lines, meaning in (((delay, timeout), "is not part of"), ((timeout, delay), "is part of")):
        (said_,) = said(explain(ORDER + "\n".join(lines) + "\n", "t"), "what its place in the order means")
        assert said_.startswith(f"the time that `d` takes {meaning} what `t` limits")


def test_policies_of_different_requests_have_no_order(explain: Explain) -> None:
    text = f'{ORDER}{RETRY} when path == "/a"\npolicy p = timeout(after: 2s) on web -> api when path == "/b"\n'
    assert "what its place in the order means" not in {part["heading"] for part in explain(text, "p")["sections"]}


@pytest.mark.parametrize(("kind", "words"), [("timeout", "all attempts together"), ("retry", "all attempts together")])
def test_a_kind_says_what_its_order_means(kind: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", kind]) == 0
    assert words in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(example.text, id=f"{guide.kind}: {example.title}")
        for guide in guides().values()
        for example in guide.examples
    ],
)
def test_an_example_of_a_kind_compiles(text: str) -> None:
    """It has a placement, and Envoy can express it."""
    placement, _ = place_program(load(program(text), FILES))
    assert placement.adms
