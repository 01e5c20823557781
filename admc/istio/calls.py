"""Calls between workloads and hosts, as they were measured, declared or guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.istio.in_force.calls import Call, Calls

if TYPE_CHECKING:
    from admc.istio.mesh.model import Place


class Guess(NamedTuple):
    """A call that is guessed, since a text has a name of the host."""

    call: Call
    place: Place
    """The value with the text."""
    line: int
    """The line of the text that has the name, from 1."""


class Measured(NamedTuple):
    """Calls that were given."""

    calls: Calls
    source: str
    days: float | None
    """Over how many days they were measured; None where the file does not say it."""
    unattributed: int
    """Series whose caller has no sidecar, and so no name."""
    hostless: int = 0
    """Series of calls to hosts without a name."""
    guesses: tuple[Guess, ...] | None = None
    """Where each call is guessed from; None if the calls are no guesses."""

    @property
    def is_guess(self) -> bool:
        return self.guesses is not None
