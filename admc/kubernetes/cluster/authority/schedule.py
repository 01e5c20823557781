"""When authorities and certificates are made, used and dropped: a function of what is stored, and of the time.

    CREATE --> an authority signs --2/3 of its life--> MAKE_NEXT: proxies get the next one, too
                     ^                                     |
                     |                                 NOTE_SHOWN: the next one is in every ConfigMap
                     |                                     |  a day
                     +---- PROMOTE: the next one signs <---+
                                |
                                +--nothing that the former one signed is valid--> DROP_FORMER

    RENEW: another serving certificate, after 2/3 of the life of the last one

Each step is stored before anything is done with it, and the next one is decided from what is stored. So a server that
was stopped at any moment goes on, and it makes no difference which replica does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
SERVING_SECONDS: Final = 30 * DAY
"""How long a serving certificate is valid."""
AUTHORITY_SECONDS: Final = 365 * DAY
RENEWED_AT: Final = 2 / 3
"""Fraction of a life, after which the next certificate or authority is made."""
CLOCK_ERROR: Final = HOUR
"""By how much the clocks of two machines may differ. What is made is valid from so long before."""
SHOWN_SECONDS: Final = DAY + CLOCK_ERROR
"""How long the next authority is in every ConfigMap before it signs. The server that signs may have another clock than
the one that noted the time."""
LAST_SECONDS: Final = SERVING_SECONDS * (1 - RENEWED_AT)
"""If an authority is valid for no longer than this, the next one signs although a namespace does not have it: it would
lose the server anyway."""


class Step(StrEnum):
    NOTHING = "nothing"
    CREATE = "create"
    """There is no valid authority: make one, which signs at once."""
    MAKE_NEXT = "make_next"
    NOTE_SHOWN = "note_shown"
    PROMOTE = "promote"
    """The next authority signs from now on, and the serving certificate is renewed by it."""
    RENEW = "renew"
    DROP_FORMER = "drop_former"


class Life(NamedTuple):
    """Of a certificate, in seconds since 1970."""

    begins: float
    ends: float

    @property
    def is_due(self) -> float:
        """The time at which its successor is made."""
        return self.begins + (self.ends - self.begins) * RENEWED_AT


class Times(NamedTuple):
    """What is stored, as far as it counts for the next step."""

    signer: Life
    serving: Life
    has_names: bool
    """Whether the serving certificate is for the names by which the server is reached."""
    next: Life | None
    next_shown: float | None
    """Since when the next authority is in every ConfigMap."""
    former_until: float | None
    """Until when something may be valid that the former authority signed; None without one."""


def next_step(times: Times | None, now: float, *, is_shown: bool) -> Step:
    """Return the next step. `is_shown`: the present authorities are in every ConfigMap."""
    if times is None:
        return Step.CREATE
    next_, signer = times.next, times.signer
    if times.former_until is not None and now >= times.former_until:
        return Step.DROP_FORMER
    if next_ is not None and now < next_.ends:
        is_last = now >= signer.ends - LAST_SECONDS
        was_shown = times.next_shown is not None and now - times.next_shown >= SHOWN_SECONDS
        if is_last or (was_shown and times.former_until is None):
            return Step.PROMOTE
    elif signer.is_due <= now < signer.ends:
        return Step.MAKE_NEXT
    if now >= signer.ends:
        return Step.CREATE
    if now >= times.serving.is_due or not times.has_names:
        return Step.RENEW
    if next_ is not None and times.next_shown is None and is_shown:
        return Step.NOTE_SHOWN
    return Step.NOTHING
