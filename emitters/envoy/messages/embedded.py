"""Parts of messages that Envoy checks beyond its schema: expressions, Lua scripts, keys, networks, fill intervals of
token buckets, and the headers that a filter may write.

The language checks the arguments of built-in kinds; a template can contain any of these. CEL is not checked.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from dsl.values import contents, jwks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from envoy.config.common.mutation_rules.v3.mutation_rules_pb2 import HeaderMutation
    from envoy.config.core.v3.address_pb2 import CidrRange
    from envoy.config.core.v3.base_pb2 import DataSource
    from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import LocalRateLimitDescriptor
    from envoy.extensions.filters.http.jwt_authn.v3.config_pb2 import JwtProvider
    from envoy.extensions.filters.http.local_ratelimit.v3.local_rate_limit_pb2 import LocalRateLimit
    from envoy.extensions.filters.http.lua.v3.lua_pb2 import Lua, LuaPerRoute
    from envoy.type.matcher.v3.regex_pb2 import RegexMatcher
    from google.protobuf.message import Message

    from dsl.diagnostics.problem import Problem

FieldProblem = tuple[str, str]
"""The name of a field, and its problem."""

_SHORTEST_FILL: Final = 50_000_000
"""Nanoseconds."""
MAX_STEPS: Final = 1_000_000
"""Envoy's limit on the size of an expression, as the bootstrap sets it."""


@lru_cache(maxsize=4096)
def wrong_expression(text: str) -> str | None:
    """The reason why Envoy refuses a regular expression. Envoy reads expressions as Latin-1."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        size = re2.compile(text.encode(), options).programsize
    except re2.error:
        return "is no regular expression that RE2 can compile"
    return f"takes {size:,} instructions, and {MAX_STEPS:,} is the most" if size > MAX_STEPS else None


def wrong(type_name: str, item: Message) -> Iterator[FieldProblem]:
    """The errors in the fields of a message, without the messages inside; none for a type without such a check."""
    check = _INSIDE.get(type_name)
    return iter(()) if check is None else check(item)


def _regex(item: RegexMatcher) -> Iterator[FieldProblem]:
    error = wrong_expression(item.regex)
    if error is not None:
        yield "regex", error


def _sources(item: Message) -> Iterator[tuple[str, bytes]]:
    """The name and the text of each `DataSource` field that contains its text (instead of a file's name)."""
    for field, value in item.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.full_name == _DATA_SOURCE:
            yield from ((field.name, content) for content in _inline(value))
        elif field.message_type.GetOptions().map_entry:
            for key, inner in value.items():
                if getattr(inner, "DESCRIPTOR", None) is not None and inner.DESCRIPTOR.full_name == _DATA_SOURCE:
                    yield from ((f"{field.name}.{str(key)[:60]}", content) for content in _inline(inner))


_DATA_SOURCE: Final = "envoy.config.core.v3.DataSource"


def _inline(source: DataSource) -> Iterator[bytes]:
    if source.HasField("inline_bytes"):
        yield source.inline_bytes
    elif source.HasField("inline_string"):
        yield source.inline_string.encode()


def _lua(item: Lua | LuaPerRoute) -> Iterator[FieldProblem]:
    if item.inline_code:
        yield from _problem("inline_code", contents.lua(item.inline_code.encode()))
    for name, content in _sources(item):
        yield from _problem(name, contents.lua(content))


def _jwks(item: JwtProvider) -> Iterator[FieldProblem]:
    for name, content in _sources(item):
        yield from _problem(name, jwks.wrong(content))


def _mutation(item: HeaderMutation) -> Iterator[FieldProblem]:
    """Reports mutations of headers that decide where a request goes. Envoy refuses them in filters of this sort."""
    header = item.append.header.key
    if header.startswith(":") or header.lower() == "host":
        yield "append.header.key", f"is `{header[:60]}`, which no filter of this sort may write"


def _bucket(item: LocalRateLimit | LocalRateLimitDescriptor) -> Iterator[FieldProblem]:
    fill = item.token_bucket.fill_interval
    if item.HasField("token_bucket") and fill.seconds * 1_000_000_000 + fill.nanos < _SHORTEST_FILL:
        yield "token_bucket.fill_interval", "has to be at least 0.05s"


def _network(item: CidrRange) -> Iterator[FieldProblem]:
    try:
        bits = ipaddress.ip_address(item.address_prefix).max_prefixlen
    except ValueError:
        yield "address_prefix", "is no address"
        return
    if item.prefix_len.value > bits:
        yield "prefix_len", f"has to be at most {bits}"


def _problem(name: str, problem: Problem | None) -> Iterator[FieldProblem]:
    if problem is not None:
        yield name, f"cannot be used: {problem.message}"


# Each function takes messages of its own type.
_INSIDE: Final[Mapping[str, Callable[[Any], Iterator[FieldProblem]]]] = {
    "envoy.type.matcher.v3.RegexMatcher": _regex,
    "xds.type.matcher.v3.RegexMatcher": _regex,
    "envoy.config.core.v3.CidrRange": _network,
    "envoy.extensions.common.ratelimit.v3.LocalRateLimitDescriptor": _bucket,
    "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit": _bucket,
    "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit": _bucket,
    "envoy.config.common.mutation_rules.v3.HeaderMutation": _mutation,
    "envoy.extensions.filters.http.lua.v3.Lua": _lua,
    "envoy.extensions.filters.http.lua.v3.LuaPerRoute": _lua,
    "envoy.extensions.filters.http.jwt_authn.v3.JwtProvider": _jwks,
}
