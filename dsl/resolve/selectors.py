"""Selectors: the services and externals, and their ports, that a scope selects.

Many policies of a large application have the same selectors, so results are cached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.graph.application import Application, find_port, match_port
from dsl.syntax import tree


class Sources(NamedTuple):
    names: frozenset[str]
    everything: bool
    """The selection includes `*`: every caller, declared or not."""


class Destinations(NamedTuple):
    names: tuple[str, ...]
    """The destinations in canonical order. Each has a port of the scope."""
    ports: frozenset[int] | None
    everything: bool


_Chosen = dict[str, frozenset[int] | None]


def _key(selection: tree.Selection) -> str:
    """The selection as text without blanks: selections with equal keys select the same."""
    return "".join(_term_key(term) for term in selection.terms) + (
        " except " + "".join(_term_key(term) for term in selection.without) if selection.without else ""
    )


def _term_key(term: tree.Term) -> str:
    atom = term.atom
    if isinstance(atom, tree.NameAtom):
        text = atom.name.text
    elif isinstance(atom, tree.GlobAtom):
        text = atom.pattern
    elif isinstance(atom, tree.LabelAtom):
        text = repr([(label.key, label.value) for label in atom.labels])
    else:
        text = "{" + "".join(_term_key(inner) for inner in atom.terms) + "}"
    return f"{text}:{term.port.text}," if term.port is not None else f"{text},"


def written(selection: tree.Selection) -> Iterator[tree.Word]:
    """The names that a selection lists, without those of globs, of labels and of its `except`."""
    without = {word.text for word in _words(selection.without)}
    return (word for word in _words(selection.terms) if word.text not in without)


def _words(terms: Sequence[tree.Term]) -> Iterator[tree.Word]:
    for term in terms:
        if isinstance(term.atom, tree.NameAtom):
            yield term.atom.name
        elif isinstance(term.atom, tree.SetAtom):
            yield from _words(term.atom.terms)


class Selectors:
    """Resolves the selections of one application."""

    def __init__(self, application: Application, diagnostics: Diagnostics) -> None:
        self.application = application
        self.diagnostics = diagnostics
        self._sources: dict[str, Sources] = {}
        self._destinations: dict[str, Destinations] = {}
        self._globs: dict[str, frozenset[str]] = {}
        self._labels: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}

    # ---- sources ----

    def sources(self, selection: tree.Selection) -> Sources | None:
        """The sources of a selection, or None after an error."""
        key = _key(selection)
        known = self._sources.get(key)
        if known is not None:
            return known
        before = len(self.diagnostics.items), self.diagnostics.errors
        names = self._named(selection.terms)
        without = self._named(selection.without)
        if self.diagnostics.errors > before[1] or names is None or without is None:
            return None
        left = names - without if without else names
        self._warn_of_empty(selection, names, left)
        sources = Sources(left, _everything(selection.terms))
        if len(self.diagnostics.items) == before[0]:
            self._sources[key] = sources
        return sources

    def _warn_of_empty(self, selection: tree.Selection, chosen: Collection[str], left: Collection[str]) -> None:
        if chosen and not left and self.application.complete:
            self.diagnostics.warning(
                "ADM405",
                f"`{selection.span.text}` selects nothing",
                selection.span,
                cause="its `except` leaves out all that it selects",
                hint="leave out less, or remove the policy",
            )

    def _named(self, terms: tuple[tree.Term, ...]) -> frozenset[str] | None:
        """Names of terms that must not have a port; None if one of them is unknown."""
        parts: list[frozenset[str]] = []
        for term in terms:
            if term.port is not None:
                self.diagnostics.error(
                    "ADM413",
                    f"`{term.span.text}` has a port, but callers and exceptions have no ports",
                    term.port.span,
                    hint="ports belong to the destinations, on the right of `->`",
                )
            part = self._named(term.atom.terms) if isinstance(term.atom, tree.SetAtom) else self._atom(term.atom)
            if part is None:
                return None
            parts.append(part)
        return parts[0] if len(parts) == 1 else frozenset().union(*parts)

    # ---- atoms ----

    def _atom(self, atom: tree.NameAtom | tree.GlobAtom | tree.LabelAtom) -> frozenset[str] | None:
        application = self.application
        if isinstance(atom, tree.NameAtom):
            return frozenset((atom.name.text,)) if application.known(atom.name, self.diagnostics) else None
        if isinstance(atom, tree.GlobAtom):
            if not atom.pattern.strip("*"):
                return application.names
            names = self._glob(atom.pattern)
            shown = f"`{atom.pattern}`"
        else:
            names = self._labelled(tuple(sorted((label.key, label.value) for label in atom.labels)))
            shown = f"`{atom.span.text}`"
        if not names and application.complete:
            self.diagnostics.warning(
                "ADM405",
                f"{shown} selects nothing",
                atom.span,
                hint="check its spelling, or remove it",
            )
        return names

    def _glob(self, pattern: str) -> frozenset[str]:
        if pattern not in self._globs:
            head, *rest = pattern.split("*")
            names = self.application.sorted_names
            first = bisect_left(names, head)
            last = bisect_left(names, head + "\x7f")
            self._globs[pattern] = frozenset(name for name in names[first:last] if _fits(name, len(head), rest))
        return self._globs[pattern]

    def _labelled(self, wanted: tuple[tuple[str, str], ...]) -> frozenset[str]:
        if wanted not in self._labels:
            holders = sorted((self._holders.get(pair, frozenset()) for pair in wanted), key=len)
            self._labels[wanted] = holders[0].intersection(*holders[1:])
        return self._labels[wanted]

    @cached_property
    def _holders(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Label -> the services that have it."""
        holders: dict[tuple[str, str], set[str]] = {}
        for service in self.application.services.values():
            for pair in (service.labels or {}).items():
                holders.setdefault(pair, set()).add(service.name)
        return {pair: frozenset(names) for pair, names in holders.items()}

    # ---- destinations ----

    def destinations(self, selection: tree.Selection) -> Destinations | None:
        """The destinations of a selection, or None after an error."""
        key = _key(selection)
        known = self._destinations.get(key)
        if known is not None:
            return known
        before = len(self.diagnostics.items), self.diagnostics.errors
        chosen: _Chosen = {}
        complete = self._choose(selection.terms, None, chosen)
        without = self._named(selection.without)
        if not complete or without is None or self.diagnostics.errors > before[1]:
            return None
        before_except = tuple(chosen)
        for name in without:
            chosen.pop(name, None)
        self._warn_of_empty(selection, before_except, chosen)
        ports = self._ports(chosen, selection)
        if self.diagnostics.errors > before[1]:
            return None
        everything = _everything(selection.terms)
        if everything and len(chosen) == len(self.application.callable):
            names = self.application.callable
        else:
            names = tuple(sorted(chosen))
        destinations = Destinations(names, ports, everything)
        if len(self.diagnostics.items) == before[0]:
            self._destinations[key] = destinations
        return destinations

    def _choose(self, terms: tuple[tree.Term, ...], outer: tree.Word | tree.Number | None, chosen: _Chosen) -> bool:
        """Adds the destinations of the terms to `chosen`: name -> port numbers, or None for all ports."""
        complete = True
        for term in terms:
            port = outer if term.port is None else term.port
            if isinstance(term.atom, tree.SetAtom):
                complete &= self._choose(term.atom.terms, port, chosen)
                continue
            names = self._atom(term.atom)
            if names is None:
                complete = False
                continue
            named = isinstance(term.atom, tree.NameAtom)
            for name in self.application.callable if names is self.application.names else sorted(names):
                self._choose_one(name, port, named, term, chosen)
        return complete

    def _choose_one(
        self,
        name: str,
        port: tree.Word | tree.Number | None,
        named: bool,
        term: tree.Term,
        chosen: _Chosen,
    ) -> None:
        ports = self.application.ports(name)
        if not ports:
            if named and name not in self.application.broken:
                self.diagnostics.error(
                    "ADM111", f"`{name}` has no port, so nothing can call it", term.span, hint="give it a port"
                )
            return
        if port is None:
            chosen[name] = None
            return
        declared = find_port(self.application, name, port, self.diagnostics) if named else match_port(ports, port)
        if declared is not None:
            earlier = chosen.get(name, frozenset())
            chosen[name] = None if earlier is None else earlier | {declared.number}

    def _ports(self, chosen: _Chosen, selection: tree.Selection) -> frozenset[int] | None:
        """A single set of port numbers that stands for the chosen ports of all destinations."""
        picked = [ports for ports in chosen.values() if ports is not None]
        if not picked:
            return None
        union = frozenset[int]().union(*picked)
        for name in sorted(chosen):
            ports = chosen[name]
            own = frozenset(port.number for port in self.application.ports(name))
            if (own if ports is None else ports) != own & union:
                self.diagnostics.error(
                    "ADM415",
                    f"one policy cannot apply to these ports of `{name}` and other ports of other destinations",
                    selection.span,
                    cause="the ports of a scope apply to all its destinations",
                    hint=f"give `{name}` a policy of its own",
                )
                return None
        return union


def _everything(terms: tuple[tree.Term, ...]) -> bool:
    return any(
        (isinstance(term.atom, tree.GlobAtom) and not term.atom.pattern.strip("*"))
        or (isinstance(term.atom, tree.SetAtom) and _everything(term.atom.terms))
        for term in terms
    )


def _fits(name: str, at: int, rest: list[str]) -> bool:
    """Whether `name` from `at` on contains the pieces in order, with any text between them, and ends with the last."""
    *middle, tail = rest
    for piece in middle:
        start = name.find(piece, at)
        if start < 0:
            return False
        at = start + len(piece)
    return len(name) - len(tail) >= at and name.endswith(tail)
