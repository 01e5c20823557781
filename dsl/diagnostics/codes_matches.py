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
        _HEAD + 'policy closed = deny() on * -> api when path matches "admin"\n',
        _HEAD + 'policy closed = deny() on * -> api when path matches ".*admin.*"\n',
    ),
    "ADM427": (
        "a placeholder that stands for itself",
        "`==`, `!=` and `starts_with` compare with the text as it is, so `*`, `{id}` and `:id` in a path stand for "
        "these characters. An error of a guard, elsewhere a warning. Use `starts_with` for a beginning, and "
        "`matches` for an expression; `[*]` is the character itself there.",
        _HEAD + 'policy closed = deny() on * -> api when path == "/admin/*"\n',
        _HEAD + 'policy closed = deny() on * -> api when path matches "/+admin/.*"\n',
    ),
}
