"""The interception that a plan needs, and what is known of it: files, since no server sees a pod's rules.

    FOLDER/interception/SERVICE/iptables.rules, ip6tables.rules   what to load, at every replica
    FOLDER/interception/SERVICE/digest                            names these rules
    FOLDER/interception/SERVICE/loaded                            holds that digest once they are loaded everywhere
    FOLDER/redirected.json                                        what is known to be loaded, and what was asked for

Whoever loads the rules writes `loaded`. Until then the old side does not let go, however long it takes. Rules of a
rollout are those of the old plan and of the new one together. What was loaded for an earlier plan, and the plan in
force does not need, may have gone with the pods: it is asked for anew.

Of the first plan nothing is known: that its rules are loaded is an assumption.
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
    """What is to be loaded at the replicas of one service."""

    files: Mapping[str, str]
    digest: str


class Asked(NamedTuple):
    """Rules that nobody has loaded yet, as far as is known."""

    digest: str
    captures: frozenset[str]


class Known(NamedTuple):
    """What is known at one moment."""

    redirected: Captures
    asked: Mapping[str, Asked]
    digests: Mapping[str, str]
    """Service -> the rules that were loaded for the rollout under way."""


Look = tuple["FileStat | None", ...]
"""What the files of one service look like."""


class Redirection:
    """What is known to be redirected. Every method may take its time, and belongs in a thread."""

    def __init__(self, folder: Path | None, *, explicit: bool = False) -> None:
        """`folder` is where it is kept and asked for; without one nobody can say that anything was loaded."""
        self._folder = folder
        self._explicit = explicit
        self._known: Known | None = None
        self._rules: dict[str, Rules] = {}
        """Of services that were asked: what is in the folder for them."""
        self._left: FileStat | None = None
        """What `redirected.json` looked like when it was read or written last."""
        self._looks: dict[str, Look] = {}
        """The same of what is there to be loaded."""

    @property
    def text(self) -> str:
        """What an operator has to load, in a sentence; empty if it is nothing, or without a folder."""
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
        """Know what an earlier server knew. Where that cannot be used nothing is known, and moves wait."""
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
        """Have in the folder what is known and what was asked for, if somebody has removed or touched that, or put
        another's in its place: then nothing counts that is said there. Whether that was so. Raises `CommandError` where
        the folder takes nothing. `rest`: the plan in force, where no rollout is under way: of what went while no
        server ran it says what to ask for."""
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
        """The services at which somebody else has removed or changed what is there to be loaded."""
        return frozenset(name for name, left in self._looks.items() if _look(folder, name) != left)

    def _write(self, folder: Path, rules: Mapping[str, Rules]) -> None:
        write(folder, rules)
        self._looks.update((name, _look(folder, name)) for name in rules)

    def _lost(self, folder: Path) -> bool:
        return self._left is not None and look(folder / NAME) != self._left

    def resume(self, old: Placed, *, redirected: bool) -> None:
        """Go on with the rollout from this plan that an earlier server was in."""
        self.recall()
        if self._known is None:
            if self._folder is not None and redirected:
                # It was there before the first step was: nobody knows what it said.
                self._known = _unknown(self._folder)
            self.begin(old, redirected=redirected)

    def begin(self, old: Placed, *, redirected: bool) -> None:
        """Another plan is to follow this one, whose captures alone may still be there. `redirected`: whether its
        connections were redirected at all. Raises `CommandError` where the folder takes nothing."""
        self.recall()
        self.confirm()
        here = captures(old) if redirected else {}
        known = Known(here, {}, {}) if self._known is None else self._known
        left = {name: names & known.redirected.get(name, frozenset()) for name, names in here.items()}
        self._know(Known(left, known.asked, {}))

    def ask(self, redirected: Mapping[str, Placed], addresses: Addresses) -> None:
        """Ask for what is needed and not known to be loaded. Raises `CommandError` where the folder takes nothing."""
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
        # Whatever was said so far is not about rules that are asked for only now, the same as before or not.
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

    def confirm(self) -> None:
        """Look at what has been loaded. Raises `CommandError` where the folder takes nothing."""
        folder, known = self._folder, self._known
        if folder is None or known is None:
            return
        done = {name: own for name, own in known.asked.items() if _said(folder, name) == own.digest}
        if done and not self._lost(folder) and not self._touched(folder) & done.keys():
            # Else it is another's word, or about other rules; `keep` sees to it.
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
        """This plan alone is in force: what it does not need is asked for no more. Raises `CommandError` where the
        folder takes nothing."""
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
        """The services at which something is not known to be redirected that has to be before the next step. Without
        redirection none are."""
        if self._explicit:
            return ()
        known = {} if self._known is None else self._known.redirected
        needed = step.needs_redirection.items()
        return tuple(name for name, names in sorted(needed) if not names <= known.get(name, frozenset()))

    def _know(self, known: Known) -> None:
        """On disk first: what is acted on outlives this server."""
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
    """What has to be redirected at each service, which may have a placement of its own."""
    known = {id(placed): captures(placed) for placed in redirected.values()}
    return {service: known[id(placed)].get(service, frozenset()) for service, placed in redirected.items()}


def wanted(redirected: Mapping[str, Placed], addresses: Addresses) -> dict[str, Rules]:
    """For each service: all that is to be redirected there."""
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
    """Of what is loaded: comments say for which policies, and those get other names."""
    lines = (line for text in files for line in text.splitlines() if not line.startswith("#"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write(folder: Path, rules: Mapping[str, Rules]) -> None:
    """Write what is to be loaded. Raises `CommandError` where the folder takes nothing."""
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
    """What an earlier server has left to be loaded."""
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
