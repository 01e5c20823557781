"""Reads the file of `--names`, which maps names in traces to services and externals of the program.

{"session-db.default.svc.cluster.local": "session_db", "10.0.0.7:5432": "ledger"}
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from admc.base.exits import CommandError, Exit
from admc.base.files import read_bounded
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.documents import DocumentError, read

MAX_BYTES: Final = 20_000_000
_Names: TypeAlias = Mapping[str, str]
CODE: Final = "ADM879"
_SHAPE: Final = 'its shape is {"session-db.default.svc.cluster.local": "session_db", "10.0.0.7:5432": "ledger"}'


class TraceNames(NamedTuple):
    """Name in traces -> service or external of the program."""

    known: Mapping[str, str]

    def service(self, name: str) -> str:
        """The service or external of a name; the name itself, if the file does not have it."""
        return self.known.get(name, name)

    def peer(self, name: str, port: str) -> str:
        """The callee of a client. The name with the port is looked up first, since a host may be several services."""
        return self.known.get(f"{name}:{port}") or self.known.get(f"[{name}]:{port}") or self.service(name)


def read_names(path: Path, parties: Collection[str] | None) -> TraceNames:
    """Return the names of a file. `parties` are the services and externals of the program, and each name has to stand
    for one of them; with None, a name may stand for anything. Raises `CommandError` with the findings."""
    content = read_bounded(path, MAX_BYTES, "the names of traces", regular=True)
    findings = Diagnostics()
    known: dict[str, str] = {}
    entries: _Names = {}
    try:
        entries = read(_Names, content.removeprefix(BOM_UTF8))  # type: ignore[type-abstract]
    except DocumentError as error:
        _wrong(findings, path, error.message)
    for name, meant in entries.items():
        if not name or not meant:
            _wrong(findings, path, f"`{name[:80]}` stands for no name")
        elif parties is not None and meant not in parties:
            hint = findings.did_you_mean(meant, parties) or "declare the service, or leave the entry out"
            _wrong(findings, path, f"the program has no `{meant[:80]}`, for which `{name[:80]}` stands", hint)
        else:
            known[name] = meant
    for name, meant in known.items():
        if known.get(meant, meant) != meant:
            hint = "a name stands for a service, and not for another entry"
            _wrong(findings, path, f"`{name[:80]}` stands for `{meant[:80]}`, which stands for another name", hint)
    if findings.has_errors:
        raise CommandError(Exit.INPUT, findings.items)
    return TraceNames(known)


def _wrong(findings: Diagnostics, path: Path, what: str, hint: str = _SHAPE) -> None:
    findings.error(CODE, f"the names in `{path}` cannot be used: {what}", None, hint=hint)
