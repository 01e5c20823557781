"""What one stream can make the server keep: names that it asks for, and answers that it owes. Beyond that it ends,
rather than all others. What all streams of a client may is in `holdings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.protocol.wire import MAX_CLAIMS, MAX_NAMES, TooMuchError

if TYPE_CHECKING:
    from collections.abc import Collection

    from xds_server.protocol.type_state import TypeState

MAX_CHARACTERS: Final = 8_000_000
"""Of all names that a client asks for together."""
MAX_UNANSWERED: Final = 1_000
"""Responses that a client has not answered. Pushes wait for answers, so only its own requests make them so many."""
MAX_UNANSWERED_NAMES: Final = 200_000
"""Names in those."""


def check(states: Collection[TypeState], *, asked: bool, claimed: int = 0) -> int:
    """How many names the stream asks for. Raises `TooMuchError`. `asked`: whether there are new names; `claimed`: names
    that it says it has, in all."""
    names = sum(len(each.subscription.names) for each in states)
    characters = 0
    if asked:
        # A name that is given up is kept, too, until that is answered.
        late = [name for each in states for name in each.owed - each.subscription.names if name not in each.known]
        names += len(late)
        characters = sum(map(len, late)) + sum(len(name) for each in states for name in each.subscription.names)
    if names > MAX_NAMES:
        raise TooMuchError(f"more than {MAX_NAMES:,} names on one stream")
    if claimed > MAX_CLAIMS:
        raise TooMuchError(f"more than {MAX_CLAIMS:,} resources from earlier streams on one stream")
    if characters > MAX_CHARACTERS:
        raise TooMuchError(f"names of more than {MAX_CHARACTERS:,} characters on one stream")
    if sum(len(each.pending_acks) for each in states) > MAX_UNANSWERED:
        raise TooMuchError(f"more than {MAX_UNANSWERED:,} responses without an answer")
    if sum(each.unknown_names for each in states) > MAX_NAMES:
        raise TooMuchError(f"answers about more than {MAX_NAMES:,} names that do not exist without an answer")
    if sum(len(each.nacked) for each in states) > MAX_UNANSWERED_NAMES:
        raise TooMuchError(f"refusals of more than {MAX_UNANSWERED_NAMES:,} names on one stream")
    if sum(len(pending.content) for each in states for pending in each.pending_acks.values()) > MAX_UNANSWERED_NAMES:
        raise TooMuchError(f"responses with more than {MAX_UNANSWERED_NAMES:,} names without an answer")
    return names
