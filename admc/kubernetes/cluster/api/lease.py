"""A Lease of `coordination.k8s.io/v1`: which of several replicas serves.

The holder acts on it until DEADLINE after the moment at which its last renewal began that it knows to be written. Any
other replica waits DURATION from the moment at which it saw the Lease change, which is later. Both use a clock of their
own machine that no one sets. So two replicas never hold it at the same time, whatever wall clocks say, and however late
a request takes effect:

    DEADLINE x (1 + r) + E  <=  DURATION x (1 - r)        with 10 s and 15 s

r is by how much a clock may be too fast or too slow, and E the time from a check of `held` to its effect. With r = 1%,
E may be 4.7 s. What takes longer, such as a process that is stopped in between, needs a fence of its own
(docs/adr/0029). The times in the object are for readers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.kubernetes.cluster.api.body import Document

LOG: Final = logging.getLogger("admc.cluster")
DURATION_SECONDS: Final = 15.0
DEADLINE: Final = 2 / 3
"""Of the duration: how long the holder acts on a renewal."""
ATTEMPT: Final = 1 / 5
"""Of the duration: between two renewals, and for the requests of one. Two that hang in a row cost nothing yet."""
LOOK: Final = 1 / 15
"""Of the duration: between two looks of a replica that waits. So it sees soon that the Lease was given up."""
PATIENCE: Final = 1 / 3
"""Of the duration: how long the API server has to answer a replica again before that takes a Lease that has expired.
The server may have been away for the holder as well, which renews the Lease by then."""
LONGEST_SECONDS: Final = 300.0
"""However long a Lease says that it lasts, no one waits longer."""
_MICRO: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def now() -> float:
    """Seconds of a clock that no one sets, and that runs on while the machine sleeps, where it has one."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LeaseApi(Protocol):
    """What it needs of `Api`."""

    async def get(self, path: str, **params: object) -> Document: ...
    async def create(self, path: str, body: Document) -> Document: ...
    async def replace(self, path: str, body: Document) -> Document: ...


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as it was read last, and since when it has been the same."""

    document: Document
    since: float
    """Monotonic seconds, at or after the last change."""
    is_gone: bool = False
    """The object was deleted since. Its holder may not know it yet."""

    @property
    def holder(self) -> str:
        return str(_spec(self.document).get("holderIdentity") or "")

    def is_free(self, now: float, duration: float) -> bool:
        """Whether another replica may take it: released, or not renewed for its whole duration, and ours."""
        theirs = _spec(self.document).get("leaseDurationSeconds")
        lasts = min(max(theirs, duration), LONGEST_SECONDS) if isinstance(theirs, int) else duration
        return (not self.holder and not self.is_gone) or now - self.since >= lasts


def observed(before: ObservedLease | None, document: Document | None, now: float) -> ObservedLease:
    """`now` is when the answer had arrived, None as document that there is no such object.

    Any write gives the object another version, so time runs on only while there was none.
    """
    if document is None:
        before = before or ObservedLease({}, now)
        return before if before.is_gone else replace(before, since=now, is_gone=True)
    if before is not None and _version(before.document) == _version(document):
        return ObservedLease(document, before.since)
    return ObservedLease(document, now)


def taken(document: Document, identity: str, duration: float, wall: datetime) -> Document:
    """The Lease with `identity` as holder: renewed if it is the holder already, else taken over.

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

    `identity` differs for each process: a Lease with it is this process's own, whichever request wrote it.
    """

    def __init__(
        self,
        api: LeaseApi,
        path: str,
        identity: str,
        duration: float = DURATION_SECONDS,
        *,
        is_first: Callable[[], Awaitable[bool]] | None = None,
        clock: Callable[[], float] = now,
    ) -> None:
        """`is_first`: whether no replica can have held it before; asked where there is no such object. Without an
        answer, another holder may exist, and the Lease is taken after its duration."""
        self._api, self._path, self._identity, self._duration, self._clock = api, path, identity, duration, clock
        self._is_first = is_first
        self._seen: ObservedLease | None = None
        self._term: object = None
        """What all renewals of one holder have in common, of this process's own last write."""
        self._renewed_at = -math.inf
        self._is_current = False
        """Whether `_seen` is the answer of this process's own last write."""
        self._answered_since: float | None = None
        """Since when no attempt has failed; None: the last one has."""
        self._turn = asyncio.Condition()
        self.was_held = False
        """Whether this process has held it at any time."""
        self.is_over = False
        """It did, and another one has held it since, or may have."""
        self.problem = ""
        """Why it could not be read or renewed at the last attempt; empty if it could."""

    @property
    def _name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def holder(self) -> str:
        """The holder as the Lease names it, this process included; empty if unknown or released."""
        return self._seen.holder if self._seen else ""

    @property
    def left(self) -> float:
        """For how many seconds this process holds it unless it renews it; 0 if it does not hold it."""
        return max(0.0, self._renewed_at + self._duration * DEADLINE - self._clock())

    @property
    def held(self) -> bool:
        return self.left > 0

    async def until_held(self) -> None:
        async with self._turn:
            await self._turn.wait_for(lambda: self.held)

    async def until_lapsed(self) -> None:
        """Wait until this process does not hold it; returns at once if it does not."""
        while (left := self.left) > 0:
            await asyncio.sleep(left)

    async def run(self) -> None:
        """Take the Lease when it is free, and renew it. Returns once `is_over`."""
        pause = self._duration * ATTEMPT
        while True:
            began = self._clock()
            try:
                async with asyncio.timeout(pause):
                    await self._attempt()
                self._report("")
            except (ApiError, TimeoutError) as error:
                self._answered_since = None
                self._report(str(error) or "the API server did not answer in time")
            if self.is_over:
                return
            next_ = pause if self.holder == self._identity else self._duration * LOOK
            await asyncio.sleep(max(pause / 4, began + next_ - self._clock()))

    async def release(self) -> None:
        """Give it up, so that another replica need not wait. Call it when `run` has ended and nothing is served."""
        self._renewed_at = -math.inf
        if self._seen is None or self.holder != self._identity:
            return
        spec = _spec(self._seen.document) | {"holderIdentity": ""}
        try:
            async with asyncio.timeout(self._duration * ATTEMPT):
                await self._api.replace(self._path, {**self._seen.document, "spec": spec})
        except (ApiError, TimeoutError) as error:
            LOG.info("the Lease `%s` is not released, it expires: %s", self._name, error)

    async def _attempt(self) -> None:
        """One request for a renewal; one or two where the Lease may have changed since the last write."""
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
        """Whether another one has it, or can have had it since this process's last write."""
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
            # Another replica was first, or the object is gone: what there is now counts.
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
