"""A request to the API server that did not succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.base.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE: Final = 500
"""Characters of the server's message that are shown."""
MAX_RETRY_AFTER: Final = 60.0
"""Seconds. A server that asks for more is asked again after this time."""


def shown(text: object) -> str:
    """Text from outside, bounded, with everything that does not print as an escape."""
    whole = str(text)
    cut = visible(whole[:MAX_MESSAGE])
    return cut if len(whole) <= MAX_MESSAGE else f"{cut}…"


class ApiError(Exception):
    """The API server refused a request, or gave no answer that can be used.

    `status` is the HTTP status; 0 if there was no answer. `retry_after` is in seconds, where the server names a time.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = shown(reason)
        self.message = shown(message)
        self.retry_after = None if retry_after is None else min(max(retry_after, 0.0), MAX_RETRY_AFTER)
        super().__init__(f"{status or 'no answer'} {self.reason}: {self.message}")

    @property
    def is_conflict(self) -> bool:
        """Another writer was first: the object has another version or another owner of a field by now."""
        return self.status == 409 and not self.is_already_there

    @property
    def is_already_there(self) -> bool:
        """`create` of an object that exists."""
        return self.reason == "AlreadyExists"

    @property
    def is_gone(self) -> bool:
        """The history that the request needs is compacted: list again."""
        return self.status == 410

    @property
    def is_not_found(self) -> bool:
        return self.status == 404


def is_refusal(error: ApiError) -> bool:
    """Whether the API server is there and does not do what it is asked: the account lacks a right, or an object, or
    its namespace, cannot have it. Another request may succeed."""
    return 400 <= error.status < 500 and error.status != 429


class WatchError(ApiError):
    """The server ended a watch with an event of type ERROR: its version can no longer be relied on."""


def from_status(status: int, document: Mapping[str, Any], retry_after: float | None = None) -> ApiError:
    """The error of an object of kind `Status`, the API server's way to say why it refuses."""
    return ApiError(status, *_fields(document), retry_after if retry_after is not None else _retry_after(document))


def from_event(document: object) -> WatchError:
    """The error of an event of type ERROR, which has a `Status`."""
    status = document if isinstance(document, dict) else {}
    code = status.get("code")
    return WatchError(code if isinstance(code, int) else 0, *_fields(status), _retry_after(status))


def _fields(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("reason") or "Unknown"), str(document.get("message") or "the server gives no reason")


def _retry_after(document: Mapping[str, Any]) -> float | None:
    details = document.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else None
