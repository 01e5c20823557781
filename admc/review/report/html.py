"""The page as bytes: one HTML file, complete in itself, that opens no connection.

    Page -> bytes

Texts of a program or a plan are data: they stand as JSON in a block that no browser runs. The Content-Security-Policy
of the page allows only the scripts and the style of this package, by their digests, and no network access.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import Final

from admc.review.report.model import Page
from dsl.documents import plain

LIBRARY: Final = "cytoscape.min.js"
SCRIPT: Final = "page.js"
STYLE: Final = "page.css"
_TEMPLATE: Final = "page.html"
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""Characters that could end the block of JSON or begin another element."""


def render(page: Page) -> bytes:
    library, script, style = (asset(name) for name in (LIBRARY, SCRIPT, STYLE))
    parts = {
        "POLICY": _policy([library, script], style),
        "TITLE": escape(page.title),
        "STYLE": style,
        "DATA": data_block(page),
        "LIBRARY": library,
        "SCRIPT": script,
    }
    text = asset(_TEMPLATE)
    # The template is split before parts are inserted, so a marker inside of a part stays text.
    return "".join(parts.get(piece, piece) for piece in text.split("@@")).encode("utf-8", "replace")


def asset(name: str) -> str:
    return (files("admc.review.report") / "web" / name).read_text(encoding="utf-8")


def data_block(page: Page) -> str:
    return json.dumps(plain(page), ensure_ascii=True, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _policy(scripts: list[str], style: str) -> str:
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'sha256-{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
