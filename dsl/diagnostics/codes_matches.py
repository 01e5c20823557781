"""Codes about matches (`when`) that are not what they look like. This module holds data only."""

from __future__ import annotations

_HEAD = "app shop\n\nservice web { http 8080 }\nservice api { http 8080 }\ncall web -> api\n"

MATCHES: dict[str, tuple[str, str, str, str]] = {
    "ADM426": (
        "a match that no request satisfies",
        "An error of a guard, which would refuse nothing, and elsewhere a warning. `matches` compares the whole value, "
        "a path begins with `/` and has no query, and every gRPC request is a `POST` to `/package.Service/Method`. "
        "The check finds single comparisons, also behind a `not`, comparisons that exclude one another, alternatives. "
        "It proves what it reports; expressions with `\\b` or `\\p{L}` are not analysed.",
        _HEAD + 'policy seen = request_count() on * -> api when path matches "admin"\n',
        _HEAD + 'policy seen = request_count() on * -> api when path matches ".*admin.*"\n',
    ),
    "ADM427": (
        "a placeholder that stands for itself",
        "`==`, `!=` and `starts_with` compare with the text as it is, so `*`, `{id}` and `:id` in a path stand for "
        "these characters. An error of a guard, elsewhere a warning. Use `starts_with` for a beginning, and "
        "`matches` for an expression; `[*]` is the character itself there.",
        _HEAD + 'policy closed = deny() on * -> api when path == "/admin/*"\n',
        _HEAD + 'policy closed = deny() on * -> api when path matches "/.*"\n',
    ),
    "ADM428": (
        "a comparison with the header `host` as it is",
        "An error of a guard, elsewhere a warning. One host has many spellings in this header: with a port, with a "
        "final dot, in capitals. `host` compares without a port and a final dot, in any case.",
        _HEAD + 'policy seen = request_count() on * -> api when header("host") == "api"\n',
        _HEAD + 'policy seen = request_count() on * -> api when host == "api"\n',
    ),
    "ADM430": (
        "a guard that another spelling of a path passes",
        "This is a warning. A guard compares a path as the client sent it, and many servers take `//admin`, "
        "`/%61dmin`, `/./admin` and `/x/../admin` for `/admin`. `normal_paths`, before the guard and on the same "
        "calls, refuses such requests with 400. A path over gRPC names a service and a method: it has one spelling.",
        _HEAD + 'policy closed = deny() on * -> api when path starts_with "/admin"\n',
        _HEAD
        + "policy paths = normal_paths() on * -> api\n"
        + 'policy closed = deny() on * -> api when path starts_with "/admin"\n',
    ),
    "ADM429": (
        "a guard that depends on the host of a request",
        "This is a warning. The client chooses the host, and a service that serves the same under any host can be "
        "asked under another one.",
        _HEAD + 'policy inside = allow(callers: [web]) on * -> api when host == "api.internal"\n',
        _HEAD + "policy inside = allow(callers: [web]) on * -> api\n",
    ),
}
