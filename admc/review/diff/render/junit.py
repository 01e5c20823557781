"""A difference of two plans as JUnit XML, which continuous integration shows as a list of tests.

    gate that passes, fails                         -> a test that passes, fails
    gate that warns, is accepted, is not judged     -> a skipped test: it did not pass
    weaker finding                                  -> a failed test, so that it is shown

The exit code of the command depends on the gates alone.
"""

from __future__ import annotations

from admc.base.findings.junit import Case, Suite, document
from admc.review.diff.model import Diff, Finding, GateResult, Verdict, Word
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.words import TEXT


def render(diff: Diff) -> str:
    weaker = tuple(_finding(diff, finding) for finding in diff.weaker)
    refused = tuple(_finding(diff, finding) for finding in diff.stricter if finding.word is Word.REFUSED)
    suites = [Suite("gates", tuple(_gate(diff, gate) for gate in diff.gates))] if diff.gates else []
    suites.append(Suite("weaker", weaker + _no_finding(diff)))
    if refused:
        suites.append(Suite("refused", refused))
    return document(suites)


def _no_finding(diff: Diff) -> tuple[Case, ...]:
    """The cases without a weaker finding: skipped if nothing was compared, passed if nothing gets weaker."""
    doubts = first_line.doubts(diff, TEXT)
    if doubts:
        return tuple(Case("not compared", diff.app, skipped=doubt) for doubt in doubts)
    return () if diff.weaker else (Case("nothing gets weaker", diff.app),)


def _gate(diff: Diff, gate: GateResult) -> Case:
    case = Case(f"{gate.name}: {'fail' if gate.fails else 'warn'} when {gate.condition}", diff.app)
    word = words.gate_word(gate)
    text = words.gate_text(gate, TEXT)
    if gate.verdict is Verdict.PASSED:
        return case
    if word == "fails":
        return case._replace(failure=(text, f"{text}\n{words.base_place(diff, gate.line).text}"))
    return case._replace(skipped=f"{word}: {text}")


def _finding(diff: Diff, finding: Finding) -> Case:
    at = words.place(diff, finding)
    calls = words.call_names(finding.calls)
    name = ": ".join(part for part in (finding.word.value, finding.policy, calls) if part)
    lines = [finding.text.replace("\n", " ")]
    if finding.change is not None:
        what, base, head = finding.change.what, finding.change.base, finding.change.head
        lines.append(f"{what}: {'none' if base is None else base} -> {'none' if head is None else head}")
    if at is not None:
        lines.append(at.text)
    body = "\n".join(line.replace("\n", " ") for line in lines)
    case = Case(name, diff.app, failure=(finding.text, body))
    return case if at is None or at.is_base else case._replace(file=at.path, line=at.line)
