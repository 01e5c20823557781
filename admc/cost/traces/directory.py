"""Finds the declared call for a recorded call, by the names of caller and callee.

    names of caller and callee -> [Directory.code] -> an index into `Directory.calls`, or -1 - `Reason`

With a program, only its services and calls are known. Without a program, each name that the language allows is taken,
and each new pair of names is added to `Directory.calls`.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admc.cost.traces.drops import Drops, Reason
from admc.cost.traces.names import TraceNames
from dsl.program import Program

OUTSIDE: Final = "internet"
"""Without a program, the caller of each call whose caller is not recorded."""
UNRECORDED: Final = frozenset({"", "(?)", "UNKNOWN", "UNAVAILABLE", "USER", "nan", "NAN"})
"""Names in Alibaba's traces for a caller that is outside or not recorded. A callee with such a name is unknown."""
NAMELESS: Final = "(no name)"
"""Written in messages for a callee without a name."""
MAX_NAMES: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_LONGEST: Final = 200


class Named(NamedTuple):
    """A call by its names. With a program, it has the same index in `Directory.calls` as in `Program.calls`."""

    source: str
    destination: str
    port: str | None
    """The name or number of the port if the callee has several ports; None without a program."""


class Directory:
    """Gives each call a code: an index into `calls`, or `-1 - reason` if the call is not known."""

    def __init__(
        self, program: Program | None, drops: Drops, names: TraceNames | None = None, *, partial_traces: bool = False
    ) -> None:
        """`names` maps names in traces to names of the program. With `partial_traces`, a call without a recorded caller
        counts as the declared call to its callee, if exactly one is declared and no external calls this callee."""
        self.calls: list[Named] = []
        self.names_of = names or TraceNames({})
        self._partial = partial_traces
        self._into: dict[str, list[int]] = {}
        self._program = program
        self._drops = drops
        self._parties: dict[str, int] = {}
        self._codes: dict[tuple[str, str], int] = {}
        self._by_pair: dict[tuple[str, str], list[int]] = {}
        self._outside: dict[str, list[int]] = {}
        if program is not None:
            self._declare(program)

    def _declare(self, program: Program) -> None:
        for index, call in enumerate(program.calls):
            service = program.services.get(call.destination)
            several = service is not None and len(service.ports) > 1
            port = (call.port.name or str(call.port.number)) if several else None
            self.calls.append(Named(call.source, call.destination, port))
            self._by_pair.setdefault((call.source, call.destination), []).append(index)
            self._into.setdefault(call.destination, []).append(index)
            if call.source in program.externals:
                self._outside.setdefault(call.destination, []).append(index)
        for name in (*program.services, *program.externals):
            self._party(name)

    def _party(self, name: str) -> int:
        return self._parties.setdefault(name, len(self._parties))

    def knows(self, name: str) -> bool:
        """Whether a service or an external has this name; without a program, whether one may have it."""
        return name in self._parties if self._program is not None else _allowed(name) and name not in UNRECORDED

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def code(self, source: str, destination: str) -> int:
        """The code of a call. `source` is empty if the caller is not recorded."""
        key = (source, destination)
        code = self._codes.get(key)
        source, destination = self.names_of.service(source), self.names_of.service(destination)
        if code is None:
            code = self._new(source, destination) if self._program is None else self._declared(source, destination)
            self._codes[key] = code
        return code

    def _declared(self, source: str, destination: str) -> int:
        if destination not in self._parties:
            return -1 - Reason.UNKNOWN_SERVICE
        if source not in self._parties:
            if source not in UNRECORDED:
                return -1 - Reason.UNKNOWN_SERVICE
            outside = self._outside.get(destination, [])
            return _only(self._into.get(destination, []) if self._partial and not outside else outside)
        return _only(self._by_pair.get((source, destination), []))

    def _new(self, source: str, destination: str) -> int:
        source = OUTSIDE if source in UNRECORDED else source
        if not _allowed(source) or not self.knows(destination) or len(self._parties) >= MAX_NAMES:
            return -1 - Reason.UNKNOWN_SERVICE
        known = self._by_pair.get((source, destination))
        if known:
            return known[0]
        self._party(source)
        self._party(destination)
        self.calls.append(Named(source, destination, None))
        self._by_pair[source, destination] = [len(self.calls) - 1]
        return len(self.calls) - 1

    def explain(self, source: str, destination: str, code: int, count: int = 1) -> None:
        """Record, for a negative code, that `count` calls are dropped because of an unknown name, or an undeclared
        or unclear call."""
        if code == -1 - Reason.UNKNOWN_SERVICE:
            unknown = destination if not self.knows(destination) else source
            self._drops.name(Reason.UNKNOWN_SERVICE, unknown or NAMELESS, count)
        elif code < 0:
            self._drops.name(Reason(-1 - code), f"{source or '(not recorded)'} -> {destination}", count)

    def marks(self) -> NDArray[np.uint64]:
        """A number for each call, computed from its names alone."""
        texts = (f"{call.source} -> {call.destination}:{call.port}" for call in self.calls)
        return np.array([int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in texts], np.uint64)

    def ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """A number for the caller of each call, and one for its callee; equal names have equal numbers."""
        sources = [self._parties[call.source] for call in self.calls]
        return np.array(sources, np.int32), np.array([self._parties[call.destination] for call in self.calls], np.int32)


def _only(codes: list[int]) -> int:
    if len(codes) == 1:
        return codes[0]
    return -1 - (Reason.UNCLEAR_CALL if codes else Reason.UNDECLARED_CALL)


def _allowed(name: str) -> bool:
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None
