"""Conditions, status and events: what each says, when a time changes, and that their size has a bound."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from admc.kubernetes.cluster.program.conditions import (
    MAX_MESSAGE,
    Condition,
    Names,
    Progress,
    Verdict,
    accepted,
    audited,
    finding_text,
    not_programmed,
    programmed,
    resolved,
    unknown,
)
from admc.kubernetes.cluster.program.events import (
    BURST,
    SECONDS_EACH,
    Happening,
    Limiter,
    event,
    rollout_step,
    transitions,
)
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.plan_objects import PlanReference
from admc.kubernetes.cluster.program.status import Report, status
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import SourceText, Span

SOURCE = SourceText("policies.adm", "app shop\nservice a, b\n")
FIRST, LATER = "2026-11-23T09:00:00Z", "2026-11-23T10:00:00Z"


def finding(
    code: str = "ADM210", message: str = "wrong", severity: Severity = Severity.ERROR, at: int = 17
) -> Diagnostic:
    return Diagnostic(code, severity, message, Span(SOURCE, at, at + 1))


def test_a_program_that_compiles_is_accepted_with_its_warnings() -> None:
    assert accepted([], has_plan=False) == Verdict(True, "Accepted", "the program compiles")
    warned = accepted([finding("ADM300", "odd", Severity.WARNING)], has_plan=True)
    assert warned == Verdict(True, "Accepted", "the program compiles\npolicies.adm:2:9: ADM300: odd")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("ADM930", "Malformed"),
        ("ADM931", "ContentMismatch"),
        ("ADM932", "ConfigMapMissing"),
        ("ADM933", "TooLarge"),
        ("ADM934", "OtherProgram"),
        ("ADM935", "Forbidden"),
        ("ADM210", "NotCompiled"),
        ("ADM605", "NoPlacement"),
        ("ADM852", "PlanRefused"),
        ("ADM853", "PlanRefused"),
        ("ADM854", "NotStored"),
        ("ADM855", "NoSafeRollout"),
    ],
)
def test_one_that_does_not_compile_has_a_reason_and_says_what_stays(code: str, reason: str) -> None:
    assert accepted([finding(code)], has_plan=True) == Verdict(
        False, reason, f"the last good plan stays in force\npolicies.adm:2:9: {code}: wrong"
    )
    assert accepted([finding(code)], has_plan=False).message.startswith("there is no plan yet\n")


def test_a_finding_has_its_cause_and_what_to_do_in_one_line() -> None:
    item = replace(finding(message="two\nlines"), cause="why", hint="do this")
    assert finding_text(item) == "policies.adm:2:9: ADM210: two lines (why); do this"


def test_ten_findings_are_shown_and_the_rest_is_counted() -> None:
    lines = accepted([finding(message=f"wrong {at}") for at in range(25)], has_plan=True).message.splitlines()
    assert lines[1] == "policies.adm:2:9: ADM210: wrong 0"
    assert len(lines) == 12
    assert lines[-1] == "and 15 more"


def test_a_message_has_a_bound() -> None:
    assert len(accepted([finding(message="x" * 100_000)] * 25, has_plan=True).message) <= MAX_MESSAGE


def test_what_is_not_resolved() -> None:
    assert resolved([]) == Verdict(True, "Resolved", "every Service, port and pod fits")
    warned = resolved([finding("ADM940", "absent", Severity.WARNING)])
    assert warned == Verdict(True, "Resolved", "no errors, and these warnings:\npolicies.adm:2:9: ADM940: absent")
    assert resolved([finding("ADM936")])[:2] == (False, "ServiceClaimed")
    assert resolved([finding("ADM940")])[:2] == (False, "NotResolved")


def test_a_plan_is_programmed_when_nothing_is_missing() -> None:
    assert programmed(Progress())[:2] == (True, "Programmed")
    assert audited(has_plan=False)[:2] == (False, "Audit")
    assert audited(has_plan=True).message.endswith("; an earlier plan stays in force")


def test_an_earlier_plan_in_force_is_not_this_one() -> None:
    assert not_programmed("an earlier plan is in force") == Verdict(
        False, "NotProgrammed", "an earlier plan is in force"
    )


def test_what_is_missing_is_all_in_the_message_and_the_first_is_the_reason() -> None:
    pods = Names.of(f"shop/pod-{number:02}" for number in range(12))
    waits = Progress("step `prepare` waits for `a`", pods, Names.of(["front"]))
    found = programmed(waits)
    assert found[:2] == (False, "RollingOut")
    assert "pods that lack what the plan needs: `shop/pod-00`" in found.message
    assert "`shop/pod-09` and 2 more; services with a proxy that is not in sync: `front`" in found.message
    assert programmed(waits._replace(rollout=""))[1] == "PodsNotReady"
    assert programmed(Progress(out_of_sync=Names.of(["a"])))[1] == "NotInSync"
    assert programmed(waits._replace(findings=(finding("ADM937"),)))[1] == "NotClosed"
    assert programmed(Progress(unclosed=Names.of(["db"])))[:2] == (False, "Closing")
    assert programmed(Progress(findings=(finding("ADM724"),)))[:2] == (False, "NotProgrammed")
    assert programmed(Progress(problem="pods: forbidden"))[:2] == (False, "NotFollowed")


def report(generation: int = 1, said: bool | None = True, message: str = "fine", **more: Any) -> Report:
    return Report(generation, {Condition.ACCEPTED: Verdict(said, "Reason", message)}, **more)


def test_the_whole_status() -> None:
    verdicts = {
        Condition.PROGRAMMED: unknown("NoPlan", "there is no plan yet"),
        Condition.ACCEPTED: Verdict(True, "Accepted", "a"),
        Condition.RESOLVED: Verdict(False, "NotResolved", "b"),
    }
    lacking = Names.of(["shop/b", "shop/a"])
    plan = PlanReference("admc-system", "admc-shop-plan", "0" * 64)
    full = Report(7, verdicts, 2, 8, 30, lacking, plan, {"shop", "data"})
    same = {"observedGeneration": 7, "lastTransitionTime": FIRST}
    assert status(full, {}, FIRST) == {
        "observedGeneration": 7,
        "conditions": [
            {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "a", **same},
            {"type": "Resolved", "status": "False", "reason": "NotResolved", "message": "b", **same},
            {
                "type": "Programmed",
                "status": "Unknown",
                "reason": "NoPlan",
                "message": "there is no plan yet",
                **same,
            },
        ],
        "adms": 2,
        "services": 8,
        "pods": {"total": 30, "lacking": 2, "names": ["shop/a", "shop/b"]},
        "plan": {"namespace": "admc-system", "name": "admc-shop-plan", "sha256": "0" * 64},
        "namespaces": ["data", "shop"],
    }


def test_the_time_of_a_condition_is_that_of_its_last_transition() -> None:
    first = status(report(), {}, FIRST)
    assert status(report(), first, LATER) == first
    other = status(report(2, message="still fine"), first, LATER)
    assert other["conditions"][0]["lastTransitionTime"] == FIRST
    assert other["conditions"][0]["observedGeneration"] == 2
    assert status(report(said=False), first, LATER)["conditions"][0]["lastTransitionTime"] == LATER


def test_what_is_not_known_yet_stays_as_it_was() -> None:
    former = status(report(adms=3, namespaces=["shop"]), {}, FIRST)
    found = status(report(said=None, keeps=True), former, LATER)
    assert (found["adms"], found["namespaces"]) == (3, ["shop"])
    assert found["conditions"][0]["status"] == "Unknown"
    assert "namespaces" not in status(report(said=None), former, LATER)


@pytest.mark.parametrize("conditions", ["x", [1], [{}], [{"type": ["Accepted"]}], {"type": "Accepted"}])
def test_conditions_of_another_form_count_as_none(conditions: Any) -> None:
    found = status(report(), {"conditions": conditions}, FIRST)
    assert found == status(report(), {}, FIRST)
    assert len(transitions({"conditions": conditions}, found)) == 1


def test_the_size_of_a_status_does_not_follow_the_number_of_pods() -> None:
    def size(pods: int) -> int:
        names = Names.of(f"shop/pod-{number:06}" for number in range(pods))
        return len(json.dumps(status(report(pods=pods, lacking=names), {}, FIRST)))

    assert size(100_000) < size(20) + 20


def test_transitions_are_events_and_other_changes_are_none() -> None:
    first = status(report(said=None), {}, FIRST)
    (begun,) = transitions({}, first)
    assert begun == Happening("Reason", "Accepted", "Accepted is Unknown: fine")
    assert transitions(first, status(report(2, None, "another message"), first, LATER)) == ()
    (failed,) = transitions(first, status(report(said=False), first, LATER))
    assert failed.is_warning


def test_events_are_bounded_in_their_rate() -> None:
    clock = [0.0]
    limiter = Limiter(lambda: clock[0])
    step = [rollout_step(f"step {number}") for number in range(100)]
    assert sum(limiter.admits(each) for each in step) == BURST
    clock[0] += SECONDS_EACH
    assert limiter.admits(step[0])
    assert not limiter.admits(step[1])
    clock[0] += 1000 * SECONDS_EACH
    assert limiter.admits(step[2])
    assert not limiter.admits(step[2]), "the same again"
    assert sum(limiter.admits(each) for each in step) == BURST - 1


def test_an_event_fits_the_bounds_of_the_api_server() -> None:
    owner = Owner("shop", "u-1")
    path, body = event(owner, rollout_step("ü" * 5000), "main", "i" * 300, f"{FIRST[:-1]}.000001Z")
    assert path == f"/apis/events.k8s.io/v1/namespaces/default/events/{body['metadata']['name']}"
    assert len(body["note"].encode()) <= 1024
    assert len(body["reportingInstance"]) <= 128
    other, _ = event(owner, rollout_step("another"), "main", "i", f"{FIRST[:-1]}.000001Z")
    assert other != path
