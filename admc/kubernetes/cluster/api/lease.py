"""A Lease of `coordination.k8s.io/v1`, by which one of several replicas serves.

Two replicas must never act as its holder at the same time, whatever wall clocks show, and however late a request takes
effect. Each replica measures time with a clock of its own machine that no one sets:

    the holder      acts for DEADLINE after it began its last successful renewal
    another one     takes the Lease once it is released, or after it has seen no change of it for DURATION

A replica sees a renewal only after the holder began it, so this is enough:

    DEADLINE x (1 + r) + E  <=  DURATION x (1 - r)        with 10 s and 15 s

r is the error of a clock's speed, and E the time from a check of `held` to the effect of the action that follows. For
an r of 1%, E may be 4.7 s. An action that can take longer, as in a process that is stopped for a while, needs a fence
of its own (docs/adr/0029). The times in the Lease object are for human readers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.kubernetes.cluster.api.body import Document
    from admc.kubernetes.cluster.api.requests import Api

LOG: Final = logging.getLogger("admc.cluster")
DURATION_SECONDS: Final = 15.0
DEADLINE: Final = 2 / 3
"""Fraction of the duration: how long the holder acts after the beginning of a renewal."""
ATTEMPT: Final = 1 / 5
"""Fraction of the duration: the time between two renewals, and the time limit of each. The holder keeps the Lease even
if two renewals in a row fail."""
LOOK: Final = 1 / 15
"""Fraction of the duration: the time between two reads of a replica that waits, so that it soon sees a released
Lease."""
PATIENCE: Final = 1 / 3
"""Fraction of the duration: how long the API server has to have answered a replica without a failure before the replica
takes an expired Lease. If the server was away, it was away for the holder too, which renews the Lease in this time."""
LONGEST_SECONDS: Final = 300.0
"""The longest time that a replica waits for an expiry, even if the Lease names a longer duration."""
_MICRO: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def now() -> float:
    """Return the seconds of a clock that no one sets. Where the machine has such a clock, it runs on during sleep."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as this replica read it last, and since when it has not changed."""

    document: Document
    since: float
    """Monotonic seconds: at the last change, or after it."""
    is_gone: bool = False
    """The object was deleted. Its holder may not know that yet."""

    @property
    def holder(self) -> str:
        return str(_spec(self.document).get("holderIdentity") or "")

    def is_free(self, now: float, duration: float) -> bool:
        """Whether another replica may take the Lease: its holder released it, or has not renewed it for `duration` and
        for the duration that the Lease names."""
        theirs = _spec(self.document).get("leaseDurationSeconds")
        lasts = min(max(theirs, duration), LONGEST_SECONDS) if isinstance(theirs, int) else duration
        return (not self.holder and not self.is_gone) or now - self.since >= lasts


def observed(before: ObservedLease | None, document: Document | None, now: float) -> ObservedLease:
    """Return the next observation. `document` is None if the Lease does not exist; `now` is the time after the answer
    arrived.

    Each write gives the object another version, so only a time without another version counts towards an expiry.
    """
    if document is None:
        before = before or ObservedLease({}, now)
        return before if before.is_gone else replace(before, since=now, is_gone=True)
    if before is not None and _version(before.document) == _version(document):
        return ObservedLease(document, before.since)
    return ObservedLease(document, now)


def taken(document: Document, identity: str, duration: float, wall: datetime) -> Document:
    """Return the Lease with `identity` as its holder: renewed if it is the holder already, else taken over.

    `renewTime` always differs from the last one, even if the wall clock stands still: a write without a difference
    gives the object no new version, and others would take the Lease for expired.
    """
    spec = _spec(document)
    last = str(spec.get("renewTime") or "")
    if wall.strftime(_MICRO) == last:
        wall += timedelta(microseconds=1)
    now = wall.strftime(_MICRO)
    new = {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(duration),
        "renewTime": now,
        "acquireTime": spec.get("acquireTime") or now,
    }
    if spec.get("holderIdentity") != identity:
        transitions = spec.get("leaseTransitions")
        new |= {"acquireTime": now, "leaseTransitions": transitions + 1 if isinstance(transitions, int) else 0}
    return {**document, "spec": new}


class LeaseHolder:
    """Holds a Lease, or waits for it.

    Each process has an `identity` of its own. If the Lease names it, this process holds the Lease, even if the answer
    to the request was lost.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        identity: str,
        duration: float = DURATION_SECONDS,
        *,
        is_first: Callable[[], Awaitable[bool]] | None = None,
        clock: Callable[[], float] = now,
    ) -> None:
        """`is_first` returns whether no replica can have held the Lease before. It is called if the Lease does not
        exist. If it returns False, another holder may exist, and this replica takes the Lease only after its
        duration."""
        self._api, self._path, self._identity, self._duration, self._clock = api, path, identity, duration, clock
        self._is_first = is_first
        self._seen: ObservedLease | None = None
        self._term: object = None
        """The uid and the number of transitions in this process's last write: they are the same in all renewals of one
        holder."""
        self._renewed_at = -math.inf
        self._is_current = False
        """Whether `_seen` is the answer to this process's own last write."""
        self._answered_since: float | None = None
        """Since when every attempt has succeeded; None if the last one has failed."""
        self._turn = asyncio.Condition()
        self._attempting = asyncio.Lock()
        self.was_held = False
        """Whether this process has held the Lease at any time."""
        self.is_over = False
        """This process has held the Lease, and another one has held it since, or may have."""
        self.is_given_up = False
        """This process has given the Lease up, or has tried to, and does not take it again."""
        self.problem = ""
        """Why the last attempt could not read or renew the Lease; empty if it could."""

    @property
    def _name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def holder(self) -> str:
        """The holder that the Lease names, this process included; empty if unknown or released."""
        return self._seen.holder if self._seen else ""

    @property
    def left(self) -> float:
        """For how many seconds this process still holds the Lease without a renewal; 0 if it does not hold it."""
        if self.is_given_up:
            return 0.0
        return max(0.0, self._renewed_at + self._duration * DEADLINE - self._clock())

    @property
    def held(self) -> bool:
        return self.left > 0

    async def until_held(self) -> None:
        async with self._turn:
            await self._turn.wait_for(lambda: self.held)

    async def until_lapsed(self) -> None:
        """Wait until this process does not hold the Lease; returns at once if it does not."""
        while (left := self.left) > 0:
            await asyncio.sleep(left)

    async def run(self) -> None:
        """Take the Lease when it is free, and renew it. Returns once `is_over` or `is_given_up`."""
        pause = self._duration * ATTEMPT
        while True:
            began = self._clock()
            try:
                async with asyncio.timeout(pause), self._attempting:
                    if not self.is_given_up:
                        await self._attempt()
                self._report("")
            except (ApiError, TimeoutError) as error:
                self._answered_since = None
                self._report(str(error) or "the API server did not answer in time")
            if self.is_over or self.is_given_up:
                return
            next_ = pause if self.holder == self._identity else self._duration * LOOK
            await asyncio.sleep(max(pause / 4, began + next_ - self._clock()))

    async def release(self) -> bool:
        """Give the Lease up, so that another replica need not wait. From the call on, this process does not hold it:
        the caller stores and publishes nothing more. Returns whether the Lease is free now; if not, it expires."""
        if self.is_given_up or not self.was_held:
            return False
        self.is_given_up = True
        try:
            # A renewal that is under way ends first: it would change the version that is replaced here.
            async with asyncio.timeout(self._duration * ATTEMPT), self._attempting:
                if not self._is_current:
                    await self._read()
                if self._seen is not None and self.holder == self._identity:
                    spec = _spec(self._seen.document) | {"holderIdentity": ""}
                    await self._api.replace(self._path, {**self._seen.document, "spec": spec})
                    return True
        except (ApiError, TimeoutError) as error:
            why = str(error) or "the API server did not answer in time"
            LOG.info("the Lease `%s` is not released, it expires: %s", self._name, why)
        return False

    async def _attempt(self) -> None:
        """Make one request for a renewal, and one more before it if the Lease may have changed since the last write."""
        if not self._is_current:
            await self._read()
        seen = self._seen
        if seen is not None and not self.is_over and await self._may_take(seen):
            await self._write(seen)

    async def _may_take(self, seen: ObservedLease) -> bool:
        if seen.holder == self._identity or (not seen.holder and not seen.is_gone):
            return True
        now, answered = self._clock(), self._answered_since
        if seen.is_free(now, self._duration):
            return answered is not None and now - answered >= self._duration * PATIENCE
        return seen.is_gone and not seen.document and self._is_first is not None and await self._is_first()

    async def _read(self) -> None:
        document: Document | None = None
        try:
            document = await self._api.get(self._path)
        except ApiError as error:
            if not error.is_not_found:
                raise
        if self._answered_since is None:
            self._answered_since = self._clock()
        self.is_over |= self.was_held and self._may_be_anothers(document)
        self._seen = observed(self._seen, document, self._clock())
        if self.holder != self._identity or self.is_over:
            self._renewed_at = -math.inf

    def _may_be_anothers(self, document: Document | None) -> bool:
        """Whether another replica holds the Lease, or can have held it since this process's last write."""
        if document is None:
            return not self.held
        holder = str(_spec(document).get("holderIdentity") or "")
        return holder != self._identity and (bool(holder) or _term(document) != self._term)

    async def _write(self, seen: ObservedLease) -> None:
        began, self._is_current = self._clock(), False
        now = datetime.now(UTC)
        try:
            if seen.is_gone:
                body = taken(self._new(), self._identity, self._duration, now)
                answer = await self._api.create(self._path.rpartition("/")[0], body)
            else:
                answer = await self._api.replace(self._path, taken(seen.document, self._identity, self._duration, now))
        except ApiError as error:
            # Another replica was first, or the object is gone: the present object counts.
            if error.is_conflict or error.is_already_there or error.is_not_found:
                await self._read()
                return
            raise
        self._seen = ObservedLease(answer, self._clock())
        self._renewed_at, self._term, self.was_held, self._is_current = began, _term(answer), True, True
        async with self._turn:
            self._turn.notify_all()

    def _new(self) -> Document:
        parts = self._path.strip("/").split("/")
        metadata = {"namespace": parts[-3], "name": parts[-1]}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}

    def _report(self, problem: str) -> None:
        if problem and not self.problem:
            LOG.warning("the Lease `%s` cannot be renewed or read: %s", self._name, problem)
        self.problem = problem


def _version(document: Document) -> str:
    return str(document.get("metadata", {}).get("resourceVersion", ""))


def _term(document: Document) -> object:
    return document.get("metadata", {}).get("uid"), _spec(document).get("leaseTransitions")


def _spec(document: Document) -> dict[str, Any]:
    spec = document.get("spec")
    return spec if isinstance(spec, dict) else {}
