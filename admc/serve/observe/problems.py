"""Current problems and counts of past events: for the log, the metrics and the status.

This module decides nothing. After any problem the active state stays; this module reports both.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError
from admc.base.findings import text
from admc.base.findings.report import Report, place
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.envoy.checks.missing_addresses import Unlisted

if TYPE_CHECKING:
    from admc.serve.compiling.worker import WorkerError
    from xds_server.resources.snapshot import SnapshotError

LOG: Final = logging.getLogger("admc.serve")
NO_PROXY: Final = "no proxy gets configuration until this is mended; the server follows every change"
UNLISTED: Final = "their addresses are missing; connections that may be theirs are refused until they are known"
NAMED: Final = 20
"""How many unlisted names the log has; the status has all of them."""


@dataclass(slots=True)
class Counts:
    """Counts since the start of the server."""

    compiles: int = 0
    compile_errors: int = 0
    address_updates: int = 0
    """Changes of addresses that were applied."""
    endpoint_errors: int = 0
    apply_errors: int = 0
    rollout_errors: int = 0
    """Steps of rollouts that failed, each of which is tried again."""
    kept_errors: int = 0
    """Times that the stored state could not be read or written, or was changed from outside."""
    compile_seconds: float = 0.0
    """Duration of the last compile whose state became active."""
    changed_at: float = 0.0
    """When the last state became active, in seconds since 1970."""


@dataclass(slots=True)
class Problems:
    """Current problems by subject: `program`, `endpoints`, `identities`, `kept` (the state directory)."""

    counts: Counts = field(default_factory=Counts)
    active_version: str = ""
    """Version of the active state. No problem changes it."""
    current: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    _folders: dict[str, str] = field(default_factory=dict)
    """Subject -> the folder to which the paths of its findings are relative."""

    unlisted: Unlisted = field(default_factory=Unlisted)
    """The names that the endpoints file of the active state does not list."""

    def clear(self, subject: str) -> None:
        self.current.pop(subject, None)

    @property
    def summary(self) -> str:
        """The first problem with its place (its cause if it has no place), and the number of others; empty if there is
        none."""
        problems = [(item, self._folders.get(subject, "")) for subject, items in self.current.items() for item in items]
        if not problems:
            return ""
        first, folder = problems[0]
        text = first.message
        if first.span is not None:
            there = place(first.span, folder)
            text = f"{there.path}:{there.line}:{there.column}: {text}"
        elif first.cause:
            text = f"{text}: {first.cause}"
        return text + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")

    def report(self, subject: str, findings: tuple[Diagnostic, ...], folder: str) -> None:
        """Log findings, and store them for the status; those of the subject `warnings` are only logged.

        After an error the log also names the state that stays active. An error of the state directory is an exception:
        there the first compile decides which state is active.
        """
        errors = any(item.severity is Severity.ERROR for item in findings)
        if subject != "warnings":
            self.current[subject], self._folders[subject] = findings, folder
        for item in findings:
            LOG.log(
                logging.ERROR if item.severity is Severity.ERROR else logging.WARNING,
                "finding",
                extra={
                    "about": subject,
                    "code": item.code,
                    **_place(item, folder),
                    "text": text.render(Report((item,), folder=folder)).rpartition("\n\n")[0],
                },
            )
        if errors and subject != "kept":
            if self.active_version:
                LOG.error("last_good_state_stays", extra={"about": subject, "state": self.active_version})
            else:
                LOG.error("no_state_yet", extra={"about": subject, "text": NO_PROXY})

    def report_unlisted(self, unlisted: Unlisted) -> None:
        """Log the names without addresses, if they have changed."""
        if unlisted == self.unlisted:
            return
        self.unlisted = unlisted
        if not unlisted.names:
            LOG.info("all_listed")
            return
        names = {"destinations": unlisted.destinations[:NAMED], "callers": unlisted.callers[:NAMED]}
        LOG.warning("unlisted", extra={**names, "of": len(unlisted.names), "text": UNLISTED})

    def report_if_new(self, subject: str, findings: tuple[Diagnostic, ...], folder: str = "") -> None:
        """The same as `report`, but only if the findings differ from the last ones of the subject."""
        if self.current.get(subject) != findings:
            self.report(subject, findings, folder)

    def report_not_saved(self, subject: str, findings: tuple[Diagnostic, ...], folder: str = "") -> None:
        """Report that the state directory could not be read or written."""
        self.counts.kept_errors += 1
        self.report_if_new(subject, findings, folder)

    def report_no_program(self) -> None:
        """Report that there is no program: not yet, or not any more."""
        if self.active_version:
            hint = "give one again; proxies keep the last plan until then"
            finding = Diagnostic("ADM950", Severity.ERROR, "there is no program any more", None, hint=hint)
        else:
            hint = "give one, or mend the one that is refused; proxies get no configuration until then"
            finding = Diagnostic("ADM950", Severity.WARNING, "there is no program yet", None, hint=hint)
        self.report_if_new("program", (finding,))

    def report_worker_failure(self, subject: str, error: WorkerError) -> None:
        """Report that a worker has met a bug or ended."""
        self._bug(subject, "admc met an unexpected error", error)

    def report_rejected(self, error: SnapshotError | CommandError) -> None:
        """Report that a compiled state cannot become active."""
        self.counts.apply_errors += 1
        if isinstance(error, CommandError):
            self.report("program", error.diagnostics, error.folder)
        else:
            self._bug("program", "the configuration is inconsistent; this is a bug in admc", error)

    def _bug(self, subject: str, message: str, error: Exception) -> None:
        self.report(subject, (Diagnostic("ADM901", Severity.ERROR, message, None, str(error)),), "")


def _place(item: Diagnostic, folder: str) -> dict[str, object]:
    """Fields of the log for programs; the text has them, too."""
    if item.span is None:
        return {}
    there = place(item.span, folder)
    return {"file": there.path, "line": there.line, "column": there.column}
