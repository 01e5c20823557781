"""Decides which clients the server admits, and to which group, and limits the streams and the memory of a client."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import grpc  # type: ignore[import-untyped]

from xds_server.limits.client_memory import MemoryBudget
from xds_server.limits.repeated_warnings import RepeatedWarnings, host_of
from xds_server.transport.client import Admission, Caller, DeniedError, NotYetError
from xds_server.transport.errors import StreamRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xds_server.limits.limits import Limits
    from xds_server.metrics import Metrics
    from xds_server.resources.cache import SnapshotCache
    from xds_server.resources.snapshot import Snapshot

TOO_MUCH: Final = "the names and answers of all streams of this client take too much memory"


class AdmissionControl:
    """Admits clients, counts their streams by identity, and charges the memory that they take."""

    def __init__(
        self,
        store: SnapshotCache,
        identify: Callable[[Caller], Admission | str | None],
        limits: Limits,
        warnings: RepeatedWarnings,
    ) -> None:
        self._store = store
        self._metrics: Metrics = store.metrics
        self._identify = identify
        self._limits = limits
        self._warnings = warnings
        self._identities: Counter[str] = Counter()
        """Open streams by identity."""
        self._budget = MemoryBudget(limits.held_per_client, limits.held)

    def admit(self, caller: Caller) -> tuple[Admission, Snapshot]:
        """The admission of a client and the snapshot that it starts from. Raises `StreamRejectedError`."""
        admission = self._admission(caller)
        if admission.identity and self._identities[admission.identity] >= self._limits.streams_per_identity:
            raise StreamRejectedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        snapshot = self._store.initial(admission.group)
        if snapshot is None:
            raise StreamRejectedError(grpc.StatusCode.UNAVAILABLE, "there is no configuration yet")
        if admission.identity:
            self._identities[admission.identity] += 1
            if caller.node.cluster not in ("", admission.group):
                self._warn_of_claim(caller, admission)
        return admission, snapshot

    def check(self, caller: Caller) -> Admission | None:
        """The admission of a client, or None. A denial is counted and logged."""
        try:
            return self._admission(caller)
        except StreamRejectedError:
            return None

    def _admission(self, caller: Caller) -> Admission:
        """The admission of a client. Raises `StreamRejectedError`; a denial is counted and logged."""
        code, answer = grpc.StatusCode.PERMISSION_DENIED, "this client has no configuration here"
        try:
            admission = self._identify(caller)
        except DeniedError as error:
            reason, why = error.reason, str(error)
            if isinstance(error, NotYetError):
                code, answer = grpc.StatusCode.UNAVAILABLE, "this client is not known yet"
        else:
            if admission is not None:
                return Admission(admission) if isinstance(admission, str) else admission
            reason, why = "unknown", "it belongs to no group"
        self._metrics.denials[reason] += 1
        fields = {
            "node": caller.node.id,
            "claimed": caller.node.cluster,
            "peer": caller.peer,
            "reason": reason,
            "why": why,
        }
        self._warnings.warn("denied", host_of(caller.peer), reason, fields)
        raise StreamRejectedError(code, answer)

    def leave(self, caller: Caller, admission: Admission, memory: int) -> None:
        """Note that a stream of an admitted client has ended, and that its `memory` bytes are free again."""
        self._budget.charge(_account(caller, admission), -memory)
        identity = admission.identity
        if identity:
            self._identities[identity] -= 1
            if not self._identities[identity]:
                del self._identities[identity]

    def charge(self, caller: Caller, admission: Admission, change: int) -> None:
        """Note a change of a stream's memory, in bytes. Raises `StreamRejectedError` beyond the bounds."""
        account = _account(caller, admission)
        if self._budget.charge(account, change):
            return
        self._metrics.denials["too_much"] += 1
        fields: dict[str, str | int] = {
            "node": caller.node.id,
            "service": admission.group,
            "identity": admission.identity,
            "peer": caller.peer,
            "held": self._budget.held(account),
        }
        self._warnings.warn("holds_too_much", account, "too_much", fields)
        raise StreamRejectedError(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH)

    def _warn_of_claim(self, caller: Caller, admission: Admission) -> None:
        fields = {
            "node": caller.node.id,
            "claimed": caller.node.cluster,
            "service": admission.group,
            "identity": admission.identity,
            "peer": caller.peer,
        }
        self._warnings.warn("claims_another", host_of(caller.peer), admission.group, fields)


def _account(caller: Caller, admission: Admission) -> str:
    """The identity, or else the address, to which the memory of a stream is charged."""
    return admission.identity or host_of(caller.peer)
