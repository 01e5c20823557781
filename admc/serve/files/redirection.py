"""Requests the redirection that plans need, and reads which of it is confirmed. The server cannot see the rules of a
pod, so both are in files.

    FOLDER/interception/SERVICE/iptables.rules, ip6tables.rules   what to load, at every replica
    FOLDER/interception/SERVICE/digest                            names these rules
    FOLDER/interception/SERVICE/loaded                            the same digest, once they are loaded everywhere
    FOLDER/redirected.json                                        what is confirmed, and what is requested

The operator writes `loaded`. Until then a rollout does not continue to the step that needs the rules, however long it
takes. The rules of a rollout are those of both plans together. Rules that were loaded for an earlier plan, and that the
active plan does not need, may have gone with their pods. If a later plan needs them, the server requests them again.

The rules of the first plan count as loaded: nothing confirms that. The record says so from then on; where it is lost,
nothing counts as loaded.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import has_content, read_bounded, system_message, write_whole
from admc.serve.file_watch import look
from admc.serve.rollout.captures import captures
from admc.serve.rollout.model import Captures
from dsl.documents import DocumentError, read, record
from emitters.interception.captures import interceptions
from emitters.interception.rules import restore_file
from emitters.interception.tables import Family

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from admc.serve.file_watch import FileStat, Signature
    from admc.serve.rollout.model import Placed, Step
    from emitters.addresses import Addresses

LOG: Final = logging.getLogger("admc.serve")
MAX_LOADED: Final = 1000
MAX_KNOWN: Final = 64_000_000
MAX_RULES: Final = 64_000_000
NAME: Final = "redirected.json"
SHOWN: Final = 3
FAMILIES: Final = {"iptables.rules": Family.IPV4, "ip6tables.rules": Family.IPV6}


class Rules(NamedTuple):
    """The rules to load at the replicas of one service."""

    files: Mapping[str, str]
    digest: str


@record
class Asked:
    """Requested rules that are not confirmed yet."""

    digest: str
    captures: frozenset[str]


@record
class Known:
    """The content of `redirected.json`."""

    redirected: Captures
    asked: Mapping[str, Asked]
    digests: Mapping[str, str]
    """Service -> digest of the rules that were confirmed in the present rollout."""
    schema_version: Literal[1] = 1


class Redirection:
    """Requests redirection, and reads the confirmations. Methods read and write files, so they belong in a thread,
    except `text`, `missing` and `proxies`."""

    def __init__(self, folder: Path | None, *, explicit: bool = False) -> None:
        """`folder` is the state folder; without one there are no confirmations. In mode `explicit` no connection is
        redirected."""
        self._folder = folder
        self._explicit = explicit
        self._known: Known | None = None
        self._rules: dict[str, Rules] = {}
        """Service -> its requested rules, as they are in the folder."""
        self._left: Signature | None = None
        """The stats of all these files, and of the record, as the server has written or read them. A file has None if
        another process changed it before. None for all: not all of them are written."""

    @property
    def text(self) -> str:
        """A sentence with the redirection that the operator has to load; empty if none is missing, or without a
        folder."""
        if self._folder is None or self._known is None or not self._known.asked:
            return ""
        names = sorted(self._known.asked)
        return (
            f"redirection is not confirmed at {listed(names)}: without it no request meets the policies that need it; "
            f"load the rules in `{self._folder / 'interception' / names[0]}` and write `loaded` there"
        )

    def load_record(self) -> None:
        """Read the record of an earlier server. If it cannot be used, nothing is confirmed, and rollouts wait."""
        if self._folder is None or self._known is not None or not (self._folder / NAME).exists():
            return
        # The stat of a file is taken before the file is read, so that a change during the read is noticed.
        self._left = {self._folder / NAME: look(self._folder / NAME)}
        try:
            content = read_bounded(self._folder / NAME, MAX_KNOWN, "what is redirected", regular=True)
            self._known = read(Known, content)
        except (CommandError, DocumentError):
            self._known = _unknown(self._folder)
        for name, asked in self._known.asked.items():
            place = self._folder / "interception" / name
            stats = {place / file: look(place / file) for file in (*FAMILIES, "digest")}
            own = _rules_there(self._folder, name)
            if own is not None and own.digest == asked.digest:
                self._rules[name] = own
                self._left |= stats

    def keep(self) -> bool:
        """Write all files again if one was removed, changed or replaced from outside; then no confirmation beside them
        counts. Returns whether there was one. Raises `CommandError` if the folder cannot be written."""
        if self._folder is None or self._known is None or not self._is_changed():
            return False
        LOG.error("redirection_renewed", extra={"services": sorted(self._rules)})
        self._store(self._known)
        return True

    def resume(self) -> None:
        """Continue from the record of an earlier server, which wrote it with its first plan."""
        self.load_record()
        if self._folder is not None and self._known is None:
            self._store(_unknown(self._folder))

    def begin(self, old: Placed | None) -> None:
        """Note that the first plan is published, or that a rollout from this plan begins. Only the captures of this
        plan
        are sure to be loaded still. None if the plan needs no redirection. Raises `CommandError` if the folder cannot
        be written."""
        self.load_record()
        self.confirm()
        here = {} if old is None else captures(old)
        known = Known(here, {}, {}) if self._known is None else self._known
        left = {name: names & known.redirected.get(name, frozenset()) for name, names in here.items()}
        self._store(Known(left, known.asked, {}))

    def ask(self, placed: Placed, addresses: Addresses) -> None:
        """Request the redirection that a plan needs and that is not confirmed, and no other. Raises `CommandError` if
        the folder cannot be written."""
        known = self._known
        if self._folder is None or known is None:
            return
        needed = captures(placed)
        missing = {name for name, names in needed.items() if not names <= known.redirected.get(name, frozenset())}
        rules = {
            name: own
            for name, own in wanted(placed, missing | (known.digests.keys() & needed.keys()), addresses).items()
            if name in missing or own.digest != known.digests[name]  # addresses have changed since they were loaded
        }
        asked = {name: Asked(own.digest, needed[name]) for name, own in rules.items()}
        # An earlier confirmation is not about rules that are requested only now, even if they are the same.
        there = {name for name in self._rules if known.asked.get(name) == asked.get(name)}
        # The operator may load requested rules in place of others, also when they are not requested any more.
        redirected = {
            name: names & asked[name].captures if name in asked else names
            for name, names in known.redirected.items()
            if name in missing or name not in asked
        }
        digests = {name: digest for name, digest in known.digests.items() if name not in asked}
        self._store(Known(redirected, asked, digests), {name: rules[name] for name in rules if name not in there})

    def confirm(self) -> None:
        """Read the confirmations. Raises `CommandError` if the folder cannot be written."""
        folder, known = self._folder, self._known
        if folder is None or known is None:
            return
        done = {name: own for name, own in known.asked.items() if _said(folder, name) == own.digest}
        if done and not self._is_changed():  # otherwise they are about other files, which `keep` replaces
            self._store(
                Known(
                    {**known.redirected, **{name: own.captures for name, own in done.items()}},
                    {name: own for name, own in known.asked.items() if name not in done},
                    {**known.digests, **{name: own.digest for name, own in done.items()}},
                )
            )
            LOG.info("redirection_loaded", extra={"services": sorted(done)})

    def missing(self, step: Step) -> tuple[str, ...]:
        """The services whose redirection is not confirmed and has to be, before the next step; none in explicit
        mode."""
        if self._explicit:
            return ()
        known = {} if self._known is None else self._known.redirected
        needed = step.needs_redirection.items()
        return tuple(name for name, names in sorted(needed) if not names <= known.get(name, frozenset()))

    def proxies(self, service: str) -> frozenset[str] | None:
        """Return None: files do not list the proxies of a service."""
        return None

    def _store(self, known: Known, written: Mapping[str, Rules] = MappingProxyType({})) -> None:
        """Store the record and new rules before they are used, because a restarted server reads them. The record is
        written first, so that it contains all rules that the operator may load. `keep` tries again what fails here."""
        folder, rules = self._folder, {**self._rules, **written}
        rules = {name: own for name, own in rules.items() if name in known.asked}
        if folder is None:
            self._known = known
            return
        changed, is_new = self._is_changed(), known != self._known
        self._known, self._rules = known, rules
        if changed or written or is_new:
            left = {} if changed or self._left is None else self._left
            self._left = None
            new = rules if changed else written
            withdraw(folder, new)
            contents = {folder / NAME: _record(known), **_contents(folder, new)}
            for path, content in contents.items():
                write_whole(path, content)
            self._left = {path: stat for path, stat in left.items() if path.parent.name in rules}
            self._left |= {path: _stat_as_written(path, content) for path, content in contents.items()}

    def _is_changed(self) -> bool:
        """Whether a file was removed or changed from outside, or could not be written."""
        return self._left is None or any(stat is None or look(path) != stat for path, stat in self._left.items())


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others, for a sentence."""
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more services" if names[SHOWN:] else "")


def wanted(placed: Placed, services: Collection[str], addresses: Addresses) -> dict[str, Rules]:
    """The rules of some services."""
    rules = {}
    for own in interceptions(*placed, addresses) if services else ():
        if own.service in services:
            files = {name: restore_file(own, family) for name, family in FAMILIES.items()}
            rules[own.service] = Rules(files, _digest(files.values()))
    return {service: rules[service] for service in sorted(rules)}


def _digest(files: Iterable[str]) -> str:
    """Return a digest of rules without their comments. Comments name policies, and a new name of a policy needs no new
    rules."""
    lines = (line for text in files for line in text.splitlines() if not line.startswith("#"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def withdraw(folder: Path, services: Iterable[str]) -> None:
    """Remove the confirmations of services. Raises `CommandError` if the folder cannot be written."""
    for service in services:
        place = folder / "interception" / service
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / "loaded").unlink(missing_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot write to the folder `{place}`", cause=system_message(error)) from error


def _contents(folder: Path, rules: Mapping[str, Rules]) -> dict[Path, bytes]:
    """The files of services."""
    return {
        folder / "interception" / service / name: text.encode()
        for service, own in rules.items()
        for name, text in {**own.files, "digest": own.digest + "\n"}.items()
    }


def _stat_as_written(path: Path, content: bytes) -> FileStat | None:
    """Return the stat of a file that still has the written content. The stat is taken before the content is
    compared."""
    stat = look(path)
    return stat if has_content(path, content) else None


def _unknown(folder: Path) -> Known:
    problem = f"`{folder / NAME}` cannot be used: what is loaded has to be confirmed again"
    LOG.error("redirection_unknown", extra={"problem": problem})
    return Known({}, {}, {})


def _said(folder: Path, service: str) -> str:
    path = folder / "interception" / service / "loaded"
    try:
        return read_bounded(path, MAX_LOADED, "a confirmation", regular=True).decode("ascii", "replace").strip()
    except CommandError:
        return ""  # nothing is confirmed yet


def _rules_there(folder: Path, service: str) -> Rules | None:
    """The rules that an earlier server requested, if the files are complete."""
    place = folder / "interception" / service
    try:
        files = {name: read_bounded(place / name, MAX_RULES, "rules", regular=True).decode() for name in FAMILIES}
        digest = read_bounded(place / "digest", MAX_LOADED, "their digest", regular=True).decode().strip()
    except (CommandError, UnicodeDecodeError):
        return None
    return Rules(files, digest) if digest == _digest(files.values()) else None


def _record(known: Known) -> bytes:
    document = {
        "schema_version": known.schema_version,
        "redirected": {name: sorted(names) for name, names in sorted(known.redirected.items())},
        "asked": {
            name: {"digest": own.digest, "captures": sorted(own.captures)} for name, own in sorted(known.asked.items())
        },
        "digests": dict(sorted(known.digests.items())),
    }
    return (json.dumps(document) + "\n").encode()
