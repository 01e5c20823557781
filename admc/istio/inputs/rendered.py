"""Finds what a tool has yet to fill in: templates of Helm, variables of a shell, comments of ytt.

A `{{` is no mistake in a value that is not used: dashboards, rules of alerts and the templates of Istio's own injector
have it, and they are in every cluster. So it is looked for in the values that are kept, and in documents that are no
YAML.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.manifests.documents import Where

TEMPLATE: Final = "{{"
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][^}]{0,200}\}|\$[A-Z][A-Z0-9_]+")
_YTT: Final = re.compile(r"^(?:[^\n\"'|>]*[ \t])?#@[ \t/a-z]", re.MULTILINE)
_FREE: Final = frozenset(
    ("env", "args", "regex", "configPatches", "pluginConfig", "inlineCode", "data", "metrics", "templates")
)
"""Fields whose values are texts of other languages, or of the process itself."""


class Unrendered(NamedTuple):
    what: str
    hint: str
    """How to render it; `CHART` stands for the folder of a chart."""


CHART: Final = "CHART"
HELM: Final = Unrendered(
    "a template of Helm, `{{`", f"`helm template {CHART} | admc advise -` renders it; `--raw` reads it as it is"
)
VARIABLE: Final = Unrendered(
    "a variable, `$`", "`envsubst < FILE | admc advise -` fills it in; `--raw` reads it as it is"
)
YTT: Final = Unrendered("a comment of ytt, `#@`", "`ytt -f DIR | admc advise -` renders it; `--raw` reads it as it is")


def place_of_ytt(text: str, start: int, end: int) -> int | None:
    """Where a comment of ytt is."""
    if text.find("#@", start, end) < 0:
        return None
    match = _YTT.search(text, start, end)
    return None if match is None else match.end() - 3


def unrendered(data: Any) -> tuple[Where, Unrendered] | None:
    """The first value that is a template or has a variable, among those that are kept of an object."""
    return next(_unrendered(data, ()), None)


def _unrendered(data: Any, where: Where) -> Iterator[tuple[Where, Unrendered]]:
    if isinstance(data, str):
        if TEMPLATE in data:
            yield where, HELM
        elif "$" in data and _VARIABLE.search(data):
            yield where, VARIABLE
    elif isinstance(data, dict):
        for key, value in data.items():
            if TEMPLATE in key:
                yield (*where, key), HELM
            if key not in _FREE:
                yield from _unrendered(value, (*where, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _unrendered(value, (*where, index))
