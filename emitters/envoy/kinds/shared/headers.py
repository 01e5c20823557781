"""Filters that set, add or remove a header of requests or of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.held_headers import inside
from emitters.envoy.kinds.interface import HttpFilter
from emitters.envoy.kinds.shared.refusals import CONTROL, MOST_VALUE, cannot_hold
from emitters.envoy.messages.typed import Json, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context

OVERWRITE: Final = "OVERWRITE_IF_EXISTS_OR_ADD"
APPEND: Final = "APPEND_IF_EXISTS_OR_ADD"
_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"


def write_request(name: str, value: str, action: str) -> HttpFilter:
    """A filter that writes a header of requests. `action` is for a header that is present already: `OVERWRITE` or
    `APPEND`."""
    return _on_request(_append(inside(name), value, action))


def remove_from_request(name: str) -> HttpFilter:
    return _on_request({"remove": inside(name)})


def write_response(name: str, value: str, action: str) -> HttpFilter:
    """A filter that writes a header of responses, as `write_request` does."""
    return _on_response(_append(name, value, action))


def remove_from_response(name: str) -> HttpFilter:
    return _on_response({"remove": name})


def _on_request(mutation: Json) -> HttpFilter:
    return HttpFilter(typed(_MUTATION, mutations={"request_mutations": [mutation]}), writes_request=True)


def _on_response(mutation: Json) -> HttpFilter:
    return HttpFilter(typed(_MUTATION, mutations={"response_mutations": [mutation]}), on_response=True)


def _literal(value: str) -> str:
    """A value that Envoy's formatter leaves as it is."""
    return value.replace("%", "%%")


def _append(name: str, value: str, action: str) -> Json:
    header = {"key": name, "value": _literal(value)}
    return {"append": {"header": header, "append_action": action, "keep_empty_value": True}}


def check_value(context: Context, policy: Policy, value: str) -> None:
    """Reports a header value that Envoy cannot hold."""
    if CONTROL & set(value):
        cannot_hold(context, policy, "a header value with a control character", "leave it out")
    elif len(_literal(value).encode()) > MOST_VALUE:
        what = f"a header value of more than {MOST_VALUE:,} bytes (a `%` counts as two)"
        cannot_hold(context, policy, what, "write a shorter one")
