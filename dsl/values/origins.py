"""Origins of web pages in `cors`: an origin as browsers send it, `*` for all origins, or `*.HOST` for all subdomains.

A browser sends a scheme, a host in lower case, and the port unless it is the scheme's default (RFC 6454). An item that
no browser sends would admit no page, so it is an error.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

ANY: Final = "*"
NULL: Final = "null"
"""The origin of pages without one, such as files and sandboxed frames."""
STAR: Final = "*."
"""Before a host: all its subdomains, at any depth, and not the host itself."""
MAX_ORIGIN: Final = 512
_SHAPE: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>\[[0-9a-f:.]+\]|[^\s,/?#@\\:\[\]]+)(?::(?P<port>.+))?"
)
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_OTHER_HOST: Final = re.compile(r"[!-~]+")
_LABELS: Final = r"(?:[a-z0-9_-]+\.)+"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class WrongOrigin(NamedTuple):
    """The reason why no browser sends an origin, with advice."""

    cause: str
    hint: str


_FORM: Final = WrongOrigin(
    "an origin is a scheme, a host and optionally a port", 'write `"https://shop.example"`, or `"*"`'
)
_STARS: Final = (
    "one `*.` right before the host means all its subdomains, and `*` alone all origins; any other is a letter"
)


def wrong_origin(text: str) -> WrongOrigin | None:
    """Why an item of `origins` admits no page; None if it can."""
    if text in (ANY, NULL):
        return None
    shape = _SHAPE.fullmatch(text) if len(text) <= MAX_ORIGIN else None
    if shape is None:
        return _without_form(text)
    scheme, host, port = shape["scheme"], shape["host"], shape["port"]
    bare = host.removeprefix(STAR)
    if "*" in bare or "*" in (port or ""):
        return WrongOrigin(_STARS, f'write `"{scheme}://*.shop.example"`')
    wrong = _wrong_host(scheme, bare, subdomains=bare != host)
    return wrong if wrong is not None else _wrong_port(scheme, host, port)


def _without_form(text: str) -> WrongOrigin:
    if "*" in text:
        return WrongOrigin(_STARS, 'write `"https://*.shop.example"`')
    cut = re.match(r"([a-z][a-z0-9+.-]*://[^/?#]+)[/?#]", text)
    if cut and wrong_origin(cut[1]) is None:
        return WrongOrigin("browsers send an origin without a path, also without a last `/`", f'write `"{cut[1]}"`')
    if text.lower() != text and wrong_origin(text.lower()) is None:
        return WrongOrigin("browsers send it in lower case", f'write `"{text.lower()}"`')
    return _FORM


def _wrong_host(scheme: str, host: str, *, subdomains: bool) -> WrongOrigin | None:
    if scheme not in _DEFAULT_PORTS:
        return None if _OTHER_HOST.fullmatch(host) else _FORM
    if host != host.lower():
        return WrongOrigin("browsers send a host in lower case", f'write `"{scheme}://{host.lower()}"`')
    if not host.isascii():
        return WrongOrigin("browsers send a host in ASCII", "write its name as `xn--...`")
    address = _is_address(host)
    if subdomains and address:
        return WrongOrigin("an address has no subdomains", f'write `"{scheme}://{host}"`')
    return None if address or _HOST.fullmatch(host) else _FORM


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.startswith("[")
    return True


def _wrong_port(scheme: str, host: str, port: str | None) -> WrongOrigin | None:
    if port is None:
        return None
    if not re.fullmatch(r"0|[1-9][0-9]{0,4}", port) or int(port) > 65535:
        return WrongOrigin("the port of an origin is a number up to 65535", f'write `"{scheme}://{host}:8443"`')
    if _DEFAULT_PORTS.get(scheme) == int(port):
        return WrongOrigin(f"browsers leave out the port of `{scheme}`", f'write `"{scheme}://{host}"`')
    return None


def subdomains(item: str) -> str | None:
    """A regular expression that matches the whole of each origin that an item with a star admits; None without a
    star."""
    scheme, there, rest = item.partition(f"://{STAR}")
    return f"{re.escape(scheme)}://{_LABELS}{re.escape(rest)}" if there else None


def admits(item: str, origin: str) -> bool:
    """Whether an item of `origins` admits an origin."""
    pattern = subdomains(item)
    if pattern is not None:
        return re.fullmatch(pattern, origin) is not None
    return item in (ANY, origin)


def admitted(item: str) -> str:
    """An origin that an item admits."""
    if item == ANY:
        return "https://any.example"
    return item.replace(f"://{STAR}", "://sub.", 1)
