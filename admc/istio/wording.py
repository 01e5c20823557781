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
    days: float | None
    unattributed: int


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
    if given.is_guess:
        return f"calls are guessed from {given.source}"
    over = "" if given.days is None else f" over {given.days:.1f} days"
    unknown = "" if not given.unattributed else f" ({given.unattributed:,} of callers without a name)"
    return f"calls of {visible(given.source)}{over}{unknown}"


def conclusion(kept: int, sidecars: int, *, chosen: bool) -> str:
    """`chosen`: whether features were kept by `--keep`."""
    asked = "a resource or `--keep` asks for" if chosen else "a resource asks for"
    return f"{kept:,} of {sidecars:,} sidecars do something that {asked}; {sidecars - kept:,} do not"


def of_layer_4(number: int, kept: int) -> str:
    return f"{number:,} of the {kept:,} do it at layer 4 alone, which ztunnel carries"


def lacks(skipped: int) -> str:
    objects = counted(skipped, "object or document", "objects or documents")
    were, them = ("was", "it") if skipped == 1 else ("were", "them")
    return f"without {objects} that {were} refused: these numbers lack {them}"
