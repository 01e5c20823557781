"""Formats of files: `file(jwks)`, `file(lua)`, `file(wasm)`.

Checks of `jwks` and `lua` load their libraries for the first such file, so other programs do not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.diagnostics.problem import Problem
from dsl.values import jwks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

MAX_LUA: Final = 1 << 20
_LUA_MEMORY: Final = 64 << 20
_SHOWN: Final = 200
_HOOKS: Final = (b"envoy_on_request", b"envoy_on_response")


def lua(content: bytes) -> Problem | None:
    """The error of a script that LuaJIT, the engine that Envoy runs, cannot load; or None. The script is not run."""
    hint = "`envoy_on_request` and `envoy_on_response` are functions of Lua 5.1, as LuaJIT reads it"
    if not content.strip():
        return Problem("ADM220", "it is empty", hint)
    if len(content) > MAX_LUA:
        return Problem("ADM220", f"it has more than {MAX_LUA:,} bytes", hint)
    if b"\0" in content:
        return Problem("ADM220", "it contains a NUL byte, at which Envoy stops reading", hint)
    from lupa import lua52, luajit21

    error, error_of_52 = _read(luajit21, content), _read(lua52, content)
    # Envoy's LuaJIT supports more of Lua 5.2: `;;`, a `break` before other statements, and `goto` as a keyword.
    if error is not None and error_of_52 is None and " near " in error:
        error = None
    elif error is None and error_of_52 is not None and "<name> expected near" in error_of_52:
        error = error_of_52
    if error is None:
        return None
    message, _, _ = error.partition(" near ")  # what follows quotes the file, which may be another one than a script
    line, colon, what = message.partition(": ")
    where = f"line {line}: {what}" if colon and line.isdecimal() else message
    return Problem("ADM220", f"LuaJIT cannot read it: {_plain(where)}", hint)


def _read(engine: ModuleType, content: bytes) -> str | None:
    """The message of one engine about a script that it cannot load, or None."""
    runtime = engine.LuaRuntime(
        encoding=None, register_eval=False, register_builtins=False, max_memory=_LUA_MEMORY, overflow_handler=None
    )
    loaded = runtime.globals()[b"load"](content, b"=script", b"t")
    if not isinstance(loaded, tuple):
        return None
    error = loaded[1]
    return (
        error.decode("utf-8", "replace").removeprefix("script:") if isinstance(error, bytes) else "it cannot be loaded"
    )


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_SHOWN].replace("`", "'")


def lua_policy(content: bytes) -> Problem | None:
    """The error of a script that cannot be loaded, or that contains the name of neither function that Envoy calls; or
    None."""
    problem = lua(content)
    if problem is not None or any(hook in content for hook in _HOOKS):
        return problem
    return Problem(
        "ADM220",
        "it has neither `envoy_on_request` nor `envoy_on_response`, so it has no effect",
        "define `function envoy_on_request(handle) ... end`, or `envoy_on_response`",
    )


def wasm(content: bytes) -> Problem | None:
    """The error of content that is no WebAssembly module with an interface for proxies, or None. Its code is not
    checked: Envoy does that when it loads it."""
    hint = "name a compiled module (`.wasm`) of the proxy-wasm ABI"
    if not content.startswith(_MAGIC):
        what = (
            "it is WebAssembly as text" if content.lstrip().startswith(b"(module") else "it is not a WebAssembly module"
        )
        return Problem("ADM221", what, hint)
    try:
        exports = _exports(content)
    except (IndexError, UnicodeDecodeError, ValueError):
        return Problem("ADM221", "it is truncated or damaged", hint)
    if not any(name.startswith("proxy_abi_version_") for name in exports):
        return Problem("ADM221", "it exports no `proxy_abi_version_...`, from which Envoy derives its interface", hint)
    return None


_MAGIC: Final = b"\0asm\x01\0\0\0"
_EXPORTS: Final = 7
_LAST_SECTION: Final = 13


def _exports(content: bytes) -> list[str]:
    """The names that a module exports. Raises `ValueError` or `IndexError` for malformed sections."""
    at = len(_MAGIC)
    names: list[str] = []
    while at < len(content):
        section = content[at]
        size, at = _number(content, at + 1)
        if section > _LAST_SECTION or at + size > len(content):
            raise ValueError
        if section == _EXPORTS:
            count, inner = _number(content, at)
            for _ in range(count):
                length, inner = _number(content, inner)
                names.append(content[inner : inner + length].decode())
                _, inner = _number(content, inner + length + 1)
            if inner != at + size:
                raise ValueError
        at += size
    return names


def _number(content: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number of 32 bits, and the offset after it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError


FORMATS: Final[Mapping[str, tuple[str, Callable[[bytes], Problem | None]]]] = {
    "jwks": ("a key set", jwks.wrong),
    "lua": ("a Lua script", lua_policy),
    "wasm": ("a WebAssembly module", wasm),
}
"""Format -> its name in messages, and its check."""
