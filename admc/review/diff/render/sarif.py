"""A difference of two plans as SARIF 2.1.0: a rule for each word, one for gates, and one for an absent comparison."""

from __future__ import annotations

import hashlib
from typing import Final

from admc.base.findings.sarif import document, uri
from admc.base.terminal import visible
from admc.review.diff.model import WEAKER, Diff, Finding, GateResult, Verdict, Word
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.words import TEXT, LinePlace

_GATE: Final = "gate"
_DOUBT: Final = "not-compared"
_TITLES: Final = {
    Word.LOST: "a policy is no longer met, though the call is still there",
    Word.NARROWED: "a policy holds for fewer requests",
    Word.LOOSENED: "an argument is weaker, or a guard admits one more caller",
    Word.RESTS_ON_MORE: "a policy rests on a new assumption",
    Word.REORDERED: "two policies that do not commute change their order",
    Word.UNCLEAR: "something changes, and no direction is proven",
    Word.REFUSED: "a guard refuses a declared call",
    Word.GAINED: "a policy is newly met",
    Word.WIDENED: "a policy holds for more requests",
    Word.TIGHTENED: "an argument is stricter, or a guard admits one caller less",
    Word.RESTS_ON_LESS: "a policy rests on an assumption less",
    Word.GONE_WITH_ITS_CALL: "a policy is gone with its call",
}
_OTHERS: Final = {_GATE: "a gate did not pass", _DOUBT: "BASE and HEAD are not wholly compared"}
_RULES: Final = (_DOUBT, _GATE, *(word.value.replace(" ", "-") for word in Word))


def render(diff: Diff) -> str:
    results = [_doubt(diff, doubt) for doubt in first_line.doubts(diff, TEXT)]
    results += [_gate(diff, gate) for gate in diff.gates if gate.verdict is not Verdict.PASSED]
    results += [_finding(diff, finding) for finding in (*diff.weaker, *diff.stricter, *diff.gone)]
    titles = {**_OTHERS, **{word.value.replace(" ", "-"): title for word, title in _TITLES.items()}}
    rules = [{"id": rule, "shortDescription": {"text": titles[rule]}} for rule in _RULES]
    return document(rules, results, {"executionSuccessful": True})


def _result(rule: str, level: str, text: str) -> dict[str, object]:
    return {"ruleId": rule, "ruleIndex": _RULES.index(rule), "level": level, "message": {"text": visible(text)}}


def _doubt(diff: Diff, doubt: str) -> dict[str, object]:
    return {**_result(_DOUBT, "warning", doubt), **_program(diff)}


def _gate(diff: Diff, gate: GateResult) -> dict[str, object]:
    word = words.gate_word(gate)
    condition = f"{'fail' if gate.fails else 'warn'} when {gate.condition}"
    message = f"gate `{gate.name}` ({condition}): {word}: {gate.text} ({words.base_place(diff, gate.line).text})"
    result = _result(_GATE, "error" if word == "fails" else "warning", message)
    if gate.verdict is Verdict.ACCEPTED:
        result["suppressions"] = [{"kind": "external", "justification": visible(gate.reason or "")}]
    return {**result, **_program(diff)}


def _finding(diff: Diff, finding: Finding) -> dict[str, object]:
    at = words.place(diff, finding)
    message = f"{words.call_names(finding.calls)}: {finding.text}" if finding.calls else finding.text
    if at is not None and at.is_base:
        message += f" ({at.text})"
    level = "warning" if finding.word in (*WEAKER, Word.REFUSED) else "note"
    result = _result(finding.word.value.replace(" ", "-"), level, message)
    result |= _program(diff) if at is None or at.is_base else _line(at)
    result["partialFingerprints"] = {"admcFinding/v1": _fingerprint(finding)}
    if finding.change is not None:
        base, head = ("" if text is None else visible(text) for text in (finding.change.base, finding.change.head))
        result["properties"] = {"what": visible(finding.change.what), "base": base, "head": head}
    return result


def _line(at: LinePlace) -> dict[str, object]:
    physical = {"artifactLocation": {"uri": uri(at.path)}, "region": {"startLine": at.line}}
    return {"locations": [{"physicalLocation": physical}]}


def _program(diff: Diff) -> dict[str, object]:
    """The file of HEAD's program as a place, for results without a line in HEAD: code hosts require a place."""
    return {"locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(diff.head.path)}}}]}


def _fingerprint(finding: Finding) -> str:
    """A digest by which a code host recognises a finding after its lines moved."""
    calls = [f"{call.source}\0{call.destination}\0{call.port}" for call in finding.calls]
    parts = (finding.word.value, finding.policy, finding.other or "", *calls)
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
