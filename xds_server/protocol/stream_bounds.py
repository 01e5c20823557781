"""Bounds one stream: the names to which it subscribes, the resources that it claims, its refusals, and the ACKs that it
owes. A stream beyond the bounds ends.

`limits.client_memory` bounds all streams of a client together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.protocol.wire import MAX_CLAIMS, MAX_NAMES, TooMuchError

if TYPE_CHECKING:
    from collections.abc import Collection

    from xds_server.protocol.type_state import TypeState

MAX_CHARACTERS: Final = 8_000_000
"""The most characters of all names in the subscriptions together."""
MAX_UNANSWERED: Final = 1_000
"""The most responses without an ACK or NACK. Pushes wait for ACKs, so only requests of the client cause so many."""
MAX_UNANSWERED_NAMES: Final = 200_000
"""The most names in responses without an ACK or NACK."""


def check(states: Collection[TypeState], *, new_names: bool, claimed: int = 0) -> int:
    """Return the number of names to which the stream subscribes. Raises `TooMuchError` if a bound is exceeded.

    `new_names`: whether the request has new names. `claimed`: the number of resources that the client claims to have.
    """
    names = sum(len(state.subscription.names) for state in states)
    characters = 0
    if new_names:
        # A name that the client drops is kept until the response to that request.
        late = [name for state in states for name in state.owed - state.subscription.names if name not in state.known]
        names += len(late)
        characters = sum(map(len, late)) + sum(len(name) for state in states for name in state.subscription.names)
    if names > MAX_NAMES:
        raise TooMuchError(f"more than {MAX_NAMES:,} names on one stream")
    if claimed > MAX_CLAIMS:
        raise TooMuchError(f"more than {MAX_CLAIMS:,} resources from earlier streams on one stream")
    if characters > MAX_CHARACTERS:
        raise TooMuchError(f"names of more than {MAX_CHARACTERS:,} characters on one stream")
    if sum(len(state.pending_acks) for state in states) > MAX_UNANSWERED:
        raise TooMuchError(f"more than {MAX_UNANSWERED:,} responses without an answer")
    if sum(state.unknown_names for state in states) > MAX_NAMES:
        raise TooMuchError(f"answers about more than {MAX_NAMES:,} names that do not exist without an answer")
    if sum(len(state.nacked) for state in states) > MAX_UNANSWERED_NAMES:
        raise TooMuchError(f"refusals of more than {MAX_UNANSWERED_NAMES:,} names on one stream")
    if sum(len(pending.content) for state in states for pending in state.pending_acks.values()) > MAX_UNANSWERED_NAMES:
        raise TooMuchError(f"responses with more than {MAX_UNANSWERED_NAMES:,} names without an answer")
    return names
