"""The mark that an ingress hop sets on its own replies if its service failed.

Without an ADM at the receiver, the sender sees that a connection is refused, a stream is reset or an answer is cut off.
An ADM at the receiver turns all of these into a plain 503 or 502. So an ingress hop puts Envoy's details of the failure
into a header of the reply, and by this mark an egress hop repeats the requests that it would repeat for the failure.

Every ingress hop that carries requests sets the mark, whatever its policies are: if the mark came with a policy, the
listener would change, and connections would be closed. Every such hop removes the header from the answers that it
receives, after the router has decided about a repetition (a route table does not touch replies of the ADM itself). So
no service can set the mark through an ADM. A caller without an egress hop for the call sees the mark. A filter at the
stage `upstream` may write it (docs/kinds.md).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from emitters.envoy.held_headers import RATE_LIMITED
from emitters.envoy.matching.predicates import answer_predicate, negation, only_where
from emitters.envoy.messages.typed import Json, typed

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILED: Final = "x-admc-failed"
"""The mark. Its value is Envoy's `%RESPONSE_CODE_DETAILS%`."""

_FLAGS: Final = ("UF", "UC", "UR", "UPE", "LR")
"""Envoy's response flags of a service that failed: no connection, a connection that ended, a stream that was reset by
the service, an answer that is no legal HTTP, a stream that was reset by the ADM. Replies of policies have others."""


class Failure(StrEnum):
    """The ways in which a service can fail, as far as Envoy's conditions for a retry distinguish them."""

    CONNECT = "connect"
    REFUSED = "refused"
    LOST = "lost"
    """The service may have handled the request: its connection or stream ended, or its answer was illegal."""


_DETAILS: Final = {
    Failure.CONNECT: r".*\{(?:(?:local_|remote_)?connection_failure|connection_timeout)\b.*",
    Failure.REFUSED: r".*\{remote_refused_stream_reset\b.*",
}
_BEFORE: Final = f"(?s)(?:{'|'.join(_DETAILS.values())})"
_ENDED: Final = r".*\{(?:remote_connection_failure|connection_timeout|connection_termination)\b.*"
"""The process refused the connection, did not answer it, or closed it before its response began. Without an ADM, the
client would not have a connection after any of these."""
_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_LUA: Final = "envoy.extensions.filters.http.lua.v3.Lua"
_ADD: Final = "OVERWRITE_IF_EXISTS_OR_ADD"


def mark_reply() -> Json:
    """A mapper of local replies: it marks those that are due to a failure of the service."""
    header = {"header": {"key": FAILED, "value": "%RESPONSE_CODE_DETAILS%"}, "append_action": _ADD}
    return {"filter": {"response_flag_filter": {"flags": list(_FLAGS)}}, "headers_to_add": [header]}


def mark_again() -> tuple[Json, Json]:
    """The configurations of two filters in front of a filter that may write any header.

    An answer passes the second filter first, which marks every answer with Envoy's details. The first filter then
    removes all marks but those that `mark_reply` makes.
    """
    marks = [{"remove": FAILED}, {"append": {"header": {"key": FAILED, "value": "%RESPONSE_CODE_DETAILS%"}}}]
    failed = answer_predicate(FAILED, {"prefix": "upstream_reset_before_response_started"})
    removal = typed(_MUTATION, mutations={"response_mutations": [{"remove": FAILED}]})
    return only_where([negation(failed)], FAILED, removal), typed(_MUTATION, mutations={"response_mutations": marks})


def close_after_failure() -> Json:
    """The configuration of a filter that ends a client's connection with a reply whose cause is `_ENDED`: by
    `Connection: close`, or GOAWAY in HTTP/2.

    A connection that stayed would get this reply to each further request, while the client's next connection may reach
    a process that answers."""
    ended = answer_predicate(FAILED, {"safe_regex": {"google_re2": {}, "regex": f"(?s){_ENDED}"}})
    script = "function envoy_on_response(handle)\n  handle:streamInfo():drainConnectionUponCompletion()\nend\n"
    return only_where([ended], FAILED, typed(_LUA, default_source_code={"inline_string": script}))


def lost_once() -> Json:
    """The configuration of an upstream filter by which Envoy does not repeat a `LOST` request for the status of its
    reply: the status comes from the ADM, and not from the service.

    The filter sets `RATE_LIMITED`. With this header Envoy repeats a request only if `on` names such a failure
    (`repeat`).
    """
    append = {"header": {"key": RATE_LIMITED, "value": "1"}, "append_action": _ADD}
    mutation = {"response_mutations": [{"append": append}]}
    marked = answer_predicate(FAILED, {"prefix": "upstream_"})
    before = answer_predicate(FAILED, {"safe_regex": {"google_re2": {}, "regex": _BEFORE}})
    config = typed(_MUTATION, mutations=mutation)
    return only_where([marked, negation(before)], FAILED, config)


def repeat(failures: Iterable[Failure]) -> tuple[list[str], list[Json]]:
    """Conditions and header matchers of a retry policy that repeats marked replies of some failures."""
    asked = set(failures)
    conditions = ["envoy-ratelimited"] if Failure.LOST in asked else []
    patterns = [_DETAILS[failure] for failure in Failure if failure in asked and failure in _DETAILS]
    if not patterns:
        return conditions, []
    regex = f"(?s)(?:{'|'.join(patterns)})"
    matcher = {"name": FAILED, "string_match": {"safe_regex": {"google_re2": {}, "regex": regex}}}
    return [*conditions, "retriable-headers"], [matcher]
