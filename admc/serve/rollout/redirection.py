"""The redirection that plans need, and which of it is confirmed. No server sees the rules of a pod: files hold both.

    FOLDER/interception/SERVICE/iptables.rules, ip6tables.rules   what to load, at every replica
    FOLDER/interception/SERVICE/digest                            names these rules
    FOLDER/interception/SERVICE/loaded                            the same digest, once they are loaded everywhere
    FOLDER/redirected.json                                        what is confirmed, and what is requested

The operator writes `loaded`. Until then a rollout does not continue to the step that needs the rules, however long it
takes. The rules of a rollout are those of both plans together. Rules that were loaded for an earlier plan, and that the
active plan does not need, may have gone with their pods. If a later plan needs them, the server requests them again.

The rules of the first plan count as loaded: nothing confirms that.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import read_bounded, system_message, write_whole
from admc.rollout.captures import captures
from admc.serve.file_watch import look
from emitters.interception import Family, interceptions, restore_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from admc.rollout.model import Captures, Placed, Step
    from admc.serve.file_watch import FileStat
    from emitters.addresses import Addresses

LOG: Final = logging.getLogger("admc.serve")
MAX_LOADED: Final = 1000
MAX_KNOWN: Final = 64_000_000
MAX_RULES: Final = 64_000_000
SCHEMA_VERSION: Final = 1
NAME: Final = "redirected.json"
SHOWN: Final = 3
FAMILIES: Final = {"iptables.rules": Family.IPV4, "ip6tables.rules": Family.IPV6}


class Rules(NamedTuple):
    """The rules to load at the replicas of one service."""

    files: Mapping[str, str]
    digest: str


class Asked(NamedTuple):
    """Requested rules that are not confirmed yet."""

    digest: str
    captures: frozenset[str]


class Known(NamedTuple):
    """The content of `redirected.json`."""

    redirected: Captures
    asked: Mapping[str, Asked]
    digests: Mapping[str, str]
    """Service -> digest of the rules that were confirmed in the present rollout."""


Look = tuple["FileStat | None", ...]
"""The state of the files of one service, by which a change is found."""


class Redirection:
    """Requests redirection, and reads the confirmations. Methods read and write files, so they belong in a thread."""

    def __init__(self, folder: Path | None, *, explicit: bool = False) -> None:
        """`folder` has the files; without it there are no confirmations. `explicit`: nothing is redirected."""
        self._folder = folder
        self._explicit = explicit
        self._known: Known | None = None
        self._rules: dict[str, Rules] = {}
        """Service -> its requested rules, as they are in the folder."""
        self._left: FileStat | None = None
        """The state of `redirected.json` when it was last read or written."""
        self._looks: dict[str, Look] = {}
        """The same of the files of each service."""

    @property
    def text(self) -> str:
        """What the operator has to load, in a sentence; empty if it is nothing, or without a folder."""
        if self._folder is None or self._known is None or not self._known.asked:
            return ""
        names = sorted(self._known.asked)
        shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more services" if names[SHOWN:] else ""
        return (
            f"redirection is not confirmed at {shown}{more}: without it no request meets the policies that need it; "
            f"load the rules in `{self._folder / 'interception' / names[0]}` and write `loaded` there"
        )

    def recall(self) -> None:
        """Read the record of an earlier server. If it cannot be used, nothing is confirmed, and rollouts wait."""
        if self._folder is None or self._known is not None or not (self._folder / NAME).exists():
            return
        try:
            content = read_bounded(self._folder / NAME, MAX_KNOWN, "what is redirected", regular=True)
            self._known = _parsed(json.loads(content))
            self._left = look(self._folder / NAME)
        except (CommandError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._known = _unknown(self._folder)
        self._rules = {
            name: own
            for name, asked in self._known.asked.items()
            if (own := _rules_there(self._folder, name)) is not None and own.digest == asked.digest
        }
        self._looks = {name: _look(self._folder, name) for name in self._rules}

    def keep(self, rest: tuple[Placed, Addresses] | None = None) -> bool:
        """Write the files again that were removed, changed or replaced from outside; confirmations beside them do not
        count. Returns whether there were any. `rest`: the active plan and its addresses, if no rollout is under way; by
        these the server requests rules again that were removed while it did not run. Raises `CommandError` if the
        folder cannot be written."""
        folder, known = self._folder, self._known
        if folder is None or known is None:
            return False
        lost = self._lost(folder)
        if lost:
            self._put(folder, known)
        touched = self._touched(folder)
        if touched:
            self._write(folder, {name: self._rules[name] for name in touched})
        gone = frozenset() if rest is None else known.asked.keys() - self._rules.keys()
        if rest is not None and gone:
            self._ask_again(folder, known, gone, *rest)
        if touched or gone:
            LOG.error("redirection_renewed", extra={"services": sorted(touched | gone)})
        return lost or bool(touched or gone)

    def _ask_again(
        self, folder: Path, known: Known, gone: Collection[str], placed: Placed, addresses: Addresses
    ) -> None:
        needed = captures(placed)
        rules = wanted(dict.fromkeys(gone, placed), addresses)
        self._write(folder, rules)
        asked = {name: own for name, own in known.asked.items() if name not in gone}
        self._know(known._replace(asked={**asked, **{name: Asked(rules[name].digest, needed[name]) for name in rules}}))
        self._rules.update(rules)

    def _touched(self, folder: Path) -> frozenset[str]:
        """The services whose files were removed or changed from outside."""
        return frozenset(name for name, left in self._looks.items() if _look(folder, name) != left)

    def _write(self, folder: Path, rules: Mapping[str, Rules]) -> None:
        write(folder, rules)
        self._looks.update((name, _look(folder, name)) for name in rules)

    def _lost(self, folder: Path) -> bool:
        return self._left is not None and look(folder / NAME) != self._left

    def resume(self, old: Placed, *, redirected: bool) -> None:
        """Continue the rollout from this plan that an earlier server began."""
        self.recall()
        if self._known is None:
            if self._folder is not None and redirected:
                # It was written before the first step: its content is lost.
                self._known = _unknown(self._folder)
            self.begin(old, redirected=redirected)

    def begin(self, old: Placed, *, redirected: bool) -> None:
        """A rollout from this plan begins. Only the captures of this plan are sure to be loaded still. `redirected`:
        whether its connections are redirected at all. Raises `CommandError` if the folder cannot be written."""
        self.recall()
        self.confirm()
        here = captures(old) if redirected else {}
        known = Known(here, {}, {}) if self._known is None else self._known
        left = {name: names & known.redirected.get(name, frozenset()) for name, names in here.items()}
        self._know(Known(left, known.asked, {}))

    def ask(self, redirected: Mapping[str, Placed], addresses: Addresses) -> None:
        """Request the redirection that is needed and not confirmed. Raises `CommandError` if the folder cannot be
        written."""
        known = self._known
        if self._folder is None or known is None or not redirected:
            return  # without a record this is the first plan, whose rules are assumed to be loaded
        needed = _of_parts(redirected)
        missing = {name for name, names in needed.items() if not names <= known.redirected.get(name, frozenset())}
        concerned = {name: own for name, own in redirected.items() if name in missing or name in known.digests}
        rules = {
            name: own
            for name, own in wanted(concerned, addresses).items()
            if name in missing or own.digest != known.digests[name]  # addresses have changed since they were loaded
        }
        asked = {name: Asked(own.digest, needed[name]) for name, own in rules.items()}
        # An earlier confirmation is not about rules that are requested only now, even if they are the same.
        there = {name for name in self._rules if known.asked.get(name) == asked.get(name)}
        self._write(self._folder, {name: own for name, own in rules.items() if name not in there})
        self._rules, self._looks = rules, {name: self._looks[name] for name in rules}
        self._know(
            Known(
                {name: names for name, names in known.redirected.items() if name in missing or name not in asked},
                asked,
                {name: digest for name, digest in known.digests.items() if name not in asked},
            )
        )

    def lacks(self, redirected: Mapping[str, Placed]) -> bool:
        """Whether some redirection is neither confirmed nor requested."""
        known = self._known
        return known is not None and any(
            name not in known.asked and not names <= known.redirected.get(name, frozenset())
            for name, names in _of_parts(redirected).items()
        )

    def confirm(self) -> None:
        """Read the confirmations. Raises `CommandError` if the folder cannot be written."""
        folder, known = self._folder, self._known
        if folder is None or known is None:
            return
        done = {name: own for name, own in known.asked.items() if _said(folder, name) == own.digest}
        if done and not self._lost(folder) and not self._touched(folder) & done.keys():
            # Otherwise the confirmation is about other files, which `keep` replaces.
            self._know(
                Known(
                    {**known.redirected, **{name: own.captures for name, own in done.items()}},
                    {name: own for name, own in known.asked.items() if name not in done},
                    {**known.digests, **{name: own.digest for name, own in done.items()}},
                )
            )
            for name in done:
                self._looks.pop(name, None)
            LOG.info("redirection_loaded", extra={"services": sorted(done)})

    def rest(self, placed: Placed) -> None:
        """Every proxy has this plan: withdraw the requests that it does not need. Raises `CommandError` if the folder
        cannot be written."""
        known = self._known
        if self._folder is None or known is None or not known.asked:
            return
        needed = captures(placed)
        asked = {
            name: own
            for name, own in known.asked.items()
            if not needed.get(name, frozenset()) <= known.redirected.get(name, frozenset())
        }
        self._looks = {name: look for name, look in self._looks.items() if name in asked}
        self._know(known._replace(asked=asked))

    def missing(self, step: Step) -> tuple[str, ...]:
        """The services whose redirection has to be confirmed before the next step; none in explicit mode."""
        if self._explicit:
            return ()
        known = {} if self._known is None else self._known.redirected
        needed = step.needs_redirection.items()
        return tuple(name for name, names in sorted(needed) if not names <= known.get(name, frozenset()))

    def _know(self, known: Known) -> None:
        """Store it before it is used: a restarted server reads it."""
        if self._folder is not None and known != self._known:
            self._put(self._folder, known)
        self._known = known

    def _put(self, folder: Path, known: Known) -> None:
        if self._lost(folder):
            self._write(folder, {name: own for name, own in self._rules.items() if name in known.asked})
        document = {
            "schema_version": SCHEMA_VERSION,
            "redirected": {name: sorted(names) for name, names in sorted(known.redirected.items())},
            "asked": {
                name: {"digest": own.digest, "captures": sorted(own.captures)}
                for name, own in sorted(known.asked.items())
            },
            "digests": dict(sorted(known.digests.items())),
        }
        write_whole(folder / NAME, (json.dumps(document) + "\n").encode())
        self._left = look(folder / NAME)


def _of_parts(redirected: Mapping[str, Placed]) -> Captures:
    """The captures of each service, which may have a placement of its own."""
    known = {id(placed): captures(placed) for placed in redirected.values()}
    return {service: known[id(placed)].get(service, frozenset()) for service, placed in redirected.items()}


def wanted(redirected: Mapping[str, Placed], addresses: Addresses) -> dict[str, Rules]:
    """The rules of each service."""
    sharing: dict[int, tuple[Placed, set[str]]] = {}
    for service, placed in redirected.items():
        sharing.setdefault(id(placed), (placed, set()))[1].add(service)
    found = {}
    for placed, services in sharing.values():
        for own in interceptions(*placed, addresses):
            if own.service in services:
                files = {name: restore_file(own, family) for name, family in FAMILIES.items()}
                found[own.service] = Rules(files, _digest(files.values()))
    return {service: found[service] for service in sorted(found)}


def _digest(files: Iterable[str]) -> str:
    """A digest without the comments, which name policies: a policy with another name needs no other rules."""
    lines = (line for text in files for line in text.splitlines() if not line.startswith("#"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write(folder: Path, rules: Mapping[str, Rules]) -> None:
    """Write the files of services. Raises `CommandError` if the folder cannot be written."""
    for service, own in rules.items():
        place = folder / "interception" / service
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / "loaded").unlink(missing_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot write to the folder `{place}`", cause=system_message(error)) from error
        for name, content in {**own.files, "digest": own.digest + "\n"}.items():
            write_whole(place / name, content.encode())


def _unknown(folder: Path) -> Known:
    said = f"`{folder / NAME}` cannot be used: what is loaded has to be confirmed again"
    LOG.error("redirection_unknown", extra={"problem": said})
    return Known({}, {}, {})


def _look(folder: Path, service: str) -> Look:
    place = folder / "interception" / service
    return tuple(look(place / name) for name in (*FAMILIES, "digest"))


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


def _parsed(document: Any) -> Known:
    if document["schema_version"] != SCHEMA_VERSION:
        raise ValueError("another schema")
    return Known(
        {name: frozenset(map(str, names)) for name, names in document["redirected"].items()},
        {
            name: Asked(str(own["digest"]), frozenset(map(str, own["captures"])))
            for name, own in document["asked"].items()
        },
        {name: str(digest) for name, digest in document["digests"].items()},
    )
