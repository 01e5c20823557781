"""Sentences about the advice that the text and the page of `admc report` share. They take plain figures, since the page
has only the document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from admc.base.terminal import visible

AT_MOST = "at most, since no --calls"


class CallsGiven(NamedTuple):
    source: str
    is_guess: bool
    number: int
    days: float | None
    unattributed: int
    hostless: int


def counted(number: int, word: str, words: str | None = None) -> str:
    """`1 pod`, `5,000 pods`. `words` is an irregular plural."""
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def today(sidecars: int, pods: int, *, at_least: bool) -> str:
    return f"{'at least ' if at_least else ''}{counted(sidecars, 'sidecar')} today ({counted(pods, 'pod')})"


def declared_by(shares: Sequence[tuple[int, str]]) -> str:
    """What says that pods have a sidecar, with the number of sidecars of each declaration."""
    if len(shares) == 1:
        return f"by {shares[0][1]}"
    return ", ".join(f"{number:,} by {declaration}" for number, declaration in shares)


def about_calls(given: CallsGiven | None) -> str:
    if given is None:
        return AT_MOST
    number = counted(given.number, "call")
    if given.is_guess:
        return f"{number}, guessed from {given.source}"
    unknown = [
        *([f"{given.unattributed:,} of callers without a name"] if given.unattributed else ()),
        *([f"{given.hostless:,} to unknown hosts"] if given.hostless else ()),
    ]
    beside = f" (and {', '.join(unknown)})" if unknown else ""
    return f"{number} of {visible(given.source)}{_over(given.days)}{beside}"


def _over(days: float | None) -> str:
    if days is None:
        return ""
    return f" over {days:.1f} days" if days >= 1 else f" over {24 * days:.1f} hours"


def conclusion(kept: int, sidecars: int, *, chosen: bool) -> str:
    """`chosen`: whether features were kept by `--keep`."""
    asked = "a resource or `--keep` asks for" if chosen else "a resource asks for"
    free = sidecars - kept
    return f"{kept:,} of {sidecars:,} sidecars {_do(kept)} something that {asked}; {free:,} {_do(free)} not"


def of_layer_4(number: int, kept: int) -> str:
    return f"{number:,} of the {kept:,} {_do(number)} it at layer 4 alone, which ztunnel carries"


def _do(number: int) -> str:
    return "does" if number == 1 else "do"


def lacks(skipped: int) -> str:
    objects = counted(skipped, "object or document", "objects or documents")
    were, them = ("was", "it") if skipped == 1 else ("were", "them")
    return f"without {objects} that {were} refused: these numbers lack {them}"
