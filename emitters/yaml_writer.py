"""A writer of YAML whose text stays text for every reader.

YAML 1.1 and 1.2 differ in what they read as a number, a date or a boolean, and the readers of Envoy (`yaml-cpp`), of
Kubernetes (`go-yaml`) and of Python each know something more. So only text that none of them can take for anything else
is written plain: it begins with a letter, `_` or `/`, and is none of a few words. All other text is quoted.

Some letters are line breaks to readers of YAML 1.1 and none to those of 1.2. Text with one of these is written with
escapes, and U+0085 not by the short escape for it, which Envoy's reader takes for half a letter.

YAML is imported where it is used: a check of what Envoy cannot express needs none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import yaml

    Dumper = type[yaml.SafeDumper] | type[yaml.CSafeDumper]

_PLAIN: Final = re.compile(r"[A-Za-z_/]")
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_BREAKS: Final = re.compile(r"[\x85\u2028\u2029]")


def dump(value: Any, width: int | None = None) -> str:
    """A value as YAML, in the order of its keys."""
    import yaml

    text: str = yaml.dump(value, Dumper=_fast(), sort_keys=False, allow_unicode=True, width=width)
    if "\\N" in text:
        text = yaml.dump(value, Dumper=_careful(), sort_keys=False, allow_unicode=True, width=width)
    return text


@cache
def _fast() -> Dumper:
    import yaml

    return _dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper)


@cache
def _careful() -> Dumper:
    """Slower, and its escapes can be chosen."""
    import yaml

    escapes = {letter: name for letter, name in yaml.SafeDumper.ESCAPE_REPLACEMENTS.items() if letter != "\x85"}
    return type("Careful", (_dumper(yaml.SafeDumper),), {"ESCAPE_REPLACEMENTS": escapes})


def _dumper(base: Dumper) -> Dumper:
    class Quoting(base):  # type: ignore[misc, valid-type]
        """Writes repeated values out: an anchor is shorter and harder to read."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # Where PyYAML sees a need for quotes by itself, it quotes in either case.
        plain = _PLAIN.match(value) and value.lower() not in _WORDS
        style = '"' if _BREAKS.search(value) else None if plain else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Quoting.add_representer(str, text)
    return Quoting
