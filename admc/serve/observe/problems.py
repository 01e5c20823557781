"""What is wrong now, and what has happened: for the log, for metrics, and for whoever asks.

Nothing here decides anything. Whatever is wrong, what was in force stays in force; this says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from admc.exits import CommandError
from admc.render import text
from admc.render.report import Report, place
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.envoy.checks.missing_addresses import Unlisted

if TYPE_CHECKING:
    from admc.serve.build.worker import WorkerError
    from xds_server.resources.snapshot import SnapshotError

LOG: Final = logging.getLogger("admc.serve")
NO_PROXY: Final = "no proxy is served until this is mended; the files are followed"
UNLISTED: Final = "their addresses are missing, so connections that may be theirs are refused until they are listed"
NAMED: Final = 20
"""How many of the names that are missing the log has; the status has all."""


@dataclass(slots=True)
class Counts:
    """What has happened since the start."""

    compiles: int = 0
    compile_errors: int = 0
    locates: int = 0
    """Changes of addresses that were put in force."""
    endpoint_errors: int = 0
    apply_errors: int = 0
    transition_errors: int = 0
    """Times that a step could not be taken, and was tried again later."""
    kept_errors: int = 0
    """Times that the kept state could not be used or written."""
    compile_seconds: float = 0.0
    """Of the last compile that was put in force."""
    changed_at: float = 0.0
    """When the last state was put in force, in seconds since 1970."""


@dataclass(slots=True)
class Problems:
    """What is wrong now, by what it is wrong with: `program`, `endpoints`, `identities`, `kept`."""

    counts: Counts = field(default_factory=Counts)
    stays: str = ""
    """Version of the state in force, which stays whatever is reported."""
    held: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    _folders: dict[str, str] = field(default_factory=dict)
    """From where the places of those are told."""

    unlisted: Unlisted = field(default_factory=Unlisted)
    """Whose addresses are missing in what is in force."""

    def clear(self, what: str) -> None:
        self.held.pop(what, None)

    @property
    def said(self) -> str:
        """The first of them with its place, or its cause where it has none, and how many more there are; empty where
        there are none."""
        found = [(item, self._folders.get(about, "")) for about, items in self.held.items() for item in items]
        if not found:
            return ""
        first, folder = found[0]
        said = first.message
        if first.span is not None:
            there = place(first.span, folder)
            said = f"{there.path}:{there.line}:{there.column}: {said}"
        elif first.cause:
            said = f"{said}: {first.cause}"
        return said + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")

    def report(self, about: str, findings: tuple[Diagnostic, ...], folder: str) -> None:
        """Tell of findings, and keep them for whoever asks. What was in force stays; whether it does where what was
        kept of it is damaged, the first compile says."""
        errors = any(item.severity is Severity.ERROR for item in findings)
        if about != "warnings":
            self.held[about], self._folders[about] = findings, folder
        for item in findings:
            LOG.log(
                logging.ERROR if item.severity is Severity.ERROR else logging.WARNING,
                "finding",
                extra={
                    "about": about,
                    "code": item.code,
                    **_place(item, folder),
                    "text": text.render(Report((item,), folder=folder)).rpartition("\n\n")[0],
                },
            )
        if errors and about != "kept":
            if self.stays:
                LOG.error("last_good_state_stays", extra={"about": about, "state": self.stays})
            else:
                LOG.error("no_state_yet", extra={"about": about, "text": NO_PROXY})

    def miss(self, unlisted: Unlisted) -> None:
        """Tell of whose addresses are missing, whenever that is somebody else."""
        if unlisted == self.unlisted:
            return
        self.unlisted = unlisted
        if not unlisted.names:
            LOG.info("all_listed")
            return
        said = {"destinations": unlisted.destinations[:NAMED], "callers": unlisted.callers[:NAMED]}
        LOG.warning("unlisted", extra={**said, "of": len(unlisted.names), "text": UNLISTED})

    def report_once(self, about: str, findings: tuple[Diagnostic, ...], folder: str = "") -> None:
        """Tell of what is looked at time and again, and may be what was told last."""
        if self.held.get(about) != findings:
            self.report(about, findings, folder)

    def not_kept(self, about: str, findings: tuple[Diagnostic, ...], folder: str = "") -> None:
        """The kept state could not be used or written."""
        self.counts.kept_errors += 1
        self.report_once(about, findings, folder)

    def failed(self, about: str, error: WorkerError) -> None:
        """A process that compiles met a bug, or has ended."""
        self._bug(about, "admc met something that it does not foresee", error)

    def refused(self, error: SnapshotError | CommandError) -> None:
        """A state that was made cannot be put in force."""
        self.counts.apply_errors += 1
        if isinstance(error, CommandError):
            self.report("program", error.diagnostics, error.folder)
        else:
            self._bug("program", "the configuration does not hold together; this is a bug in admc", error)

    def _bug(self, about: str, message: str, error: Exception) -> None:
        self.report(about, (Diagnostic("ADM901", Severity.ERROR, message, None, str(error)),), "")


def _place(item: Diagnostic, folder: str) -> dict[str, object]:
    """For those who look for it in the log; the text has it, too."""
    if item.span is None:
        return {}
    there = place(item.span, folder)
    return {"file": there.path, "line": there.line, "column": there.column}
