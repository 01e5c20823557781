"""The conditions of a `Program`, from findings and from the server's knowledge of pods and proxies.

findings, progress -> Verdict
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.findings.report import place
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHOWN: Final = 10
"""Findings in one message."""
MAX_FINDING: Final = 700
MAX_MESSAGE: Final = 8_000
"""Characters."""


class Condition(StrEnum):
    ACCEPTED = "Accepted"
    """The program compiles. Its plan is the one that is served, unless the mode is `Audit`."""
    RESOLVED = "Resolved"
    """Its Services, ports and pods fit."""
    PROGRAMMED = "Programmed"
    """Every pod has what the plan needs, every proxy is in sync, and no transition is under way."""


class Verdict(NamedTuple):
    """The state of a condition."""

    status: bool | None
    """None if unknown."""
    reason: str
    """In CamelCase."""
    message: str


class Names(NamedTuple):
    """How many names there are, and the first of them."""

    number: int = 0
    first: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        ordered = sorted(names)
        return cls(len(ordered), tuple(ordered[:SHOWN]))

    @property
    def text(self) -> str:
        more = f" and {self.number - len(self.first)} more" if self.number > len(self.first) else ""
        return ", ".join(f"`{name}`" for name in self.first) + more


class Progress(NamedTuple):
    """How far the plan is in force."""

    rollout: str = ""
    """What the rollout waits for, in a sentence; empty without a rollout."""
    lacking: Names = Names()
    """Pods that lack what the plan needs: the captures, or an ADM."""
    out_of_sync: Names = Names()
    """Services of which some proxy has not acknowledged the newest configuration."""
    unclosed: Names = Names()
    """Destinations that have to be closed, and are not known to be."""
    findings: tuple[Diagnostic, ...] = ()
    """Obstacles: destinations that cannot be closed, addresses that cannot be used."""
    problem: str = ""
    """Why the server's view of the cluster may be old; empty if it is not."""
    unrecognised: tuple[Diagnostic, ...] = ()
    """Services with pods whose containers of admc were altered: a reason why pods lack something."""


_REASONS: Final = {
    "ADM930": "Malformed",
    "ADM931": "ContentMismatch",
    "ADM932": "ConfigMapMissing",
    "ADM933": "TooLarge",
    "ADM934": "OtherProgram",
    "ADM935": "Forbidden",
    "ADM936": "ServiceClaimed",
    "ADM937": "NotClosed",
    "ADM852": "PlanRefused",
    "ADM853": "PlanRefused",
    "ADM854": "NotStored",
    "ADM855": "NoSafeRollout",
    "ADM955": "InjectionTooLarge",
    "ADM956": "InjectionNotWritten",
}


def accepted(findings: Sequence[Diagnostic], *, has_plan: bool, folder: str = "") -> Verdict:
    """`findings` are errors and warnings of reading or compiling. With `has_plan`, an earlier plan is in force."""
    errors = _errors(findings)
    if not errors:
        return Verdict(True, "Accepted", _joined("the program compiles", findings, folder))
    stays = "the last good plan stays in force" if has_plan else "there is no plan yet"
    return Verdict(False, _reason(errors, "NotCompiled"), _joined(stays, errors, folder))


def resolved(findings: Sequence[Diagnostic], folder: str = "") -> Verdict:
    errors = _errors(findings)
    if not errors:
        summary = "no errors, and these warnings:" if findings else "every Service, port and pod fits"
        return Verdict(True, "Resolved", _joined(summary, findings, folder))
    summary = "a program with this is not put into force; a plan that is in force stays"
    return Verdict(False, _reason(errors, "NotResolved"), _joined(summary, errors, folder))


def unknown(reason: str, message: str) -> Verdict:
    """Return the verdict of a condition that cannot be judged before another one holds: `NoPlan`, `Starting`."""
    return Verdict(None, reason, message)


def not_programmed(message: str) -> Verdict:
    """The plan in force is not the one of this program."""
    return Verdict(False, "NotProgrammed", message)


def audited(*, has_plan: bool) -> Verdict:
    """With `has_plan`, proxies have the plan of an earlier program."""
    stays = "; an earlier plan stays in force" if has_plan else ""
    return Verdict(False, "Audit", f"in mode `Audit` admc plans and reports, and changes nothing{stays}")


def programmed(progress: Progress, folder: str = "") -> Verdict:
    errors = _errors(progress.findings)
    reasons = []
    if progress.rollout:
        reasons.append(("RollingOut", progress.rollout))
    if progress.lacking.number:
        reasons.append(("PodsNotReady", f"pods that lack what the plan needs: {progress.lacking.text}"))
    if progress.out_of_sync.number:
        reasons.append(("NotInSync", f"services with a proxy that is not in sync: {progress.out_of_sync.text}"))
    if progress.unclosed.number:
        reasons.append(("Closing", f"destinations that are not known to be closed: {progress.unclosed.text}"))
    if progress.problem:
        reasons.append(("NotFollowed", f"the cluster cannot be followed at present: {progress.problem}"))
    if not errors and not reasons:
        return Verdict(True, "Programmed", "every pod has what the plan needs, and every proxy is in sync")
    reason = _reason(errors, "NotProgrammed") if errors else reasons[0][0]
    shown = [*errors, *progress.unrecognised]
    return Verdict(False, reason, _joined("; ".join(text for _, text in reasons), shown, folder))


def finding_text(item: Diagnostic, folder: str = "") -> str:
    """`policies.adm:12:8: ADM601: message (cause); hint`, in one line."""
    where = ""
    if item.span is not None:
        there = place(item.span, folder)
        where = f"{there.path}:{there.line}:{there.column}: "
    cause = f" ({item.cause})" if item.cause else ""
    hint = f"; {item.hint}" if item.hint else ""
    return _shortened(f"{where}{item.code}: {item.message}{cause}{hint}".replace("\n", " "), MAX_FINDING)


def _errors(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [item for item in findings if item.severity is Severity.ERROR]


def _reason(errors: Sequence[Diagnostic], otherwise: str) -> str:
    code = errors[0].code
    return "NoPlacement" if code.startswith("ADM6") else _REASONS.get(code, otherwise)


def _joined(first: str, findings: Sequence[Diagnostic], folder: str) -> str:
    lines = [first] if first else []
    lines += [finding_text(item, folder) for item in findings[:SHOWN]]
    if len(findings) > SHOWN:
        lines.append(f"and {len(findings) - SHOWN} more")
    return _shortened("\n".join(lines), MAX_MESSAGE)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
