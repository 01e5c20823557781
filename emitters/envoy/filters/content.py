"""What requests and responses carry: headers, path, cross-origin rules, compression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from emitters.envoy.filters.built import Built
from emitters.envoy.filters.guards import strings
from emitters.envoy.held_headers import inside
from emitters.envoy.messages.typed import Json, extension, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"


def literal(value: str) -> str:
    """A value that Envoy's formatter leaves as it is."""
    return value.replace("%", "%%")


def _append(policy: Policy, name: str, action: str) -> Json:
    value = literal(str(policy.arguments["value"]))
    return {"append": {"header": {"key": name, "value": value}, "append_action": action, "keep_empty_value": True}}


def _request(policy: Policy, action: str | None) -> Built:
    name = inside(str(policy.arguments["name"]))
    mutation = {"remove": name} if action is None else _append(policy, name, action)
    return Built(typed(_MUTATION, mutations={"request_mutations": [mutation]}), writes_request=True)


def _response(policy: Policy, action: str | None) -> Built:
    name = str(policy.arguments["name"])
    mutation = {"remove": name} if action is None else _append(policy, name, action)
    return Built(typed(_MUTATION, mutations={"response_mutations": [mutation]}), on_response=True)


def set_request_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _request(policy, "OVERWRITE_IF_EXISTS_OR_ADD")


def add_request_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _request(policy, "APPEND_IF_EXISTS_OR_ADD")


def remove_request_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _request(policy, None)


def set_response_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _response(policy, "OVERWRITE_IF_EXISTS_OR_ADD")


def add_response_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _response(policy, "APPEND_IF_EXISTS_OR_ADD")


def remove_response_header(context: Context, hop: Hop, policy: Policy) -> Built:
    return _response(policy, None)


def rewrite_path(context: Context, hop: Hop, policy: Policy) -> Built:
    """Replace the beginning of the path. No filter of Envoy's own does this at a place of our choice, so Lua does.

    What goes out is a path that begins with one `/`: an empty target, or one that a server reads as an address
    (`http://x/`, `//x/`), would pass guards that compare paths. `*` and the target of a CONNECT are no paths.
    """
    prefix, to = (_lua_string(str(policy.arguments[name])) for name in ("prefix", "to"))
    script = (
        f"local prefix, to = {prefix}, {to}\n"
        "function envoy_on_request(handle)\n"
        '  local path = handle:headers():get(":path")\n'
        '  if path and path:sub(1, 1) == "/" and path:sub(1, #prefix) == prefix then\n'
        '    local rest = (to .. path:sub(#prefix + 1)):match("^/*(.*)$")\n'
        '    handle:headers():replace(":path", "/" .. rest)\n'
        "  end\n"
        "end\n"
    )
    return Built(
        typed("envoy.extensions.filters.http.lua.v3.Lua", default_source_code={"inline_string": script}),
        writes_request=True,
    )


def _lua_string(value: str) -> str:
    """A Lua string literal. Every byte that is not plainly a letter of a path becomes a number, so none can end it."""
    safe = re.compile(rb"[A-Za-z0-9/._~-]")
    return (
        '"' + "".join(chr(byte) if safe.fullmatch(bytes([byte])) else f"\\{byte:03d}" for byte in value.encode()) + '"'
    )


def cors(context: Context, hop: Hop, policy: Policy) -> Built:
    arguments = policy.arguments
    max_age = arguments["max_age"]
    assert isinstance(max_age, int)  # noqa: S101 - checked by the resolver
    origins = strings(arguments["origins"])
    return Built(
        typed("envoy.extensions.filters.http.cors.v3.Cors"),
        in_route=typed(
            "envoy.extensions.filters.http.cors.v3.CorsPolicy",
            allow_origin_string_match=[
                {"safe_regex": {"regex": ".*"}} if origin == "*" else {"exact": origin} for origin in origins
            ],
            allow_methods=", ".join(strings(arguments["methods"])),
            allow_headers=", ".join(strings(arguments["headers"])) or None,
            expose_headers=", ".join(strings(arguments["expose"])) or None,
            allow_credentials=bool(arguments["credentials"]),
            max_age=str(max_age // 1_000_000),
        ),
    )


_COMPRESSORS: Final = {
    "gzip": "envoy.extensions.compression.gzip.compressor.v3.Gzip",
    "brotli": "envoy.extensions.compression.brotli.compressor.v3.Brotli",
    "zstd": "envoy.extensions.compression.zstd.compressor.v3.Zstd",
}


_PART: Final = 206
"""The status of a part of a representation: its range counts the bytes of the whole as it is without compression."""


def compression(context: Context, hop: Hop, policy: Policy) -> Built:
    algorithm = str(policy.arguments["algorithm"])
    return Built(
        typed(
            "envoy.extensions.filters.http.compressor.v3.Compressor",
            compressor_library=extension(algorithm, _COMPRESSORS[algorithm]),
            response_direction_config={
                "common_config": {"min_content_length": policy.arguments["min_size"]},
                "uncompressible_response_codes": [_PART],
            },
        ),
        on_response=True,
    )
