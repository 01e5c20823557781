"""A request to the API server that did not succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.base.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE: Final = 500
"""Characters of the server's message that are shown."""
MAX_RETRY_AFTER: Final = 60.0
"""Seconds. A client waits no longer than this, even if the server asks for more."""
UNKNOWN_FIELD: Final = "field not declared in schema"
_OF_THE_REQUEST: Final = (
    "failed calling webhook",
    UNKNOWN_FIELD,
    "etcdserver: request is too large",
    "trying to send message larger than max",
)
"""Parts of messages with the status 500, which the API server also gives when etcd does not answer: a webhook that
cannot be called, a server-side apply with a field that the definition of the kind does not have, and an object that is
too large for etcd."""


def shown(text: object) -> str:
    """Return text from outside, cut to a bound and with escapes for everything that does not print."""
    whole = str(text)
    cut = visible(whole[:MAX_MESSAGE])
    return cut if len(whole) <= MAX_MESSAGE else f"{cut}…"


class ApiError(Exception):
    """The API server refused a request, or gave no answer that can be used.

    `status` is the HTTP status; 0 without an answer, and for one that is too large or ends too early. `retry_after` is
    the time to wait in seconds, if the server names one.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = shown(reason)
        self.message = shown(message)
        self.retry_after = None if retry_after is None else min(max(retry_after, 0.0), MAX_RETRY_AFTER)
        super().__init__(f"{status or 'no answer'} {self.reason}: {self.message}")

    @property
    def is_conflict(self) -> bool:
        """Another writer was first: the object has another version by now, or a field has another owner."""
        return self.status == 409 and not self.is_already_there

    @property
    def is_already_there(self) -> bool:
        """`create` of an object that exists."""
        return self.reason == "AlreadyExists"

    @property
    def is_gone(self) -> bool:
        """The API server has compacted the history that the request needs, so the caller has to list again."""
        return self.status == 410

    @property
    def is_not_found(self) -> bool:
        return self.status == 404


def is_refusal(error: ApiError) -> bool:
    """Whether the API server answers and refuses the request: the account lacks a right, the object or its namespace
    cannot have the change, or a webhook for it does not answer, perhaps in this namespace alone. Another request may
    succeed."""
    is_of_the_request = error.status == 500 and any(part in error.message for part in _OF_THE_REQUEST)
    return is_of_the_request or (400 <= error.status < 500 and error.status != 429)


class WatchError(ApiError):
    """The server ended a watch with an event of type ERROR: the version of the watch is not valid any more."""


def from_status(status: int, document: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    """Return the error in an object of kind `Status`, with the API server's reason for a refusal."""
    return ApiError(status, *_fields(document), retry_after if retry_after is not None else _retry_after(document))


def from_event(document: object) -> WatchError:
    """Return the error in an event of type ERROR, whose object is a `Status`."""
    status = document if isinstance(document, dict) else {}
    code = status.get("code")
    return WatchError(code if isinstance(code, int) else 0, *_fields(status), _retry_after(status))


def _fields(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("reason") or "Unknown"), str(document.get("message") or "the server gives no reason")


def _retry_after(document: Mapping[str, Any]) -> float | None:
    details = document.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else None
