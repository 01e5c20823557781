"""A writer of YAML whose text stays text for every reader.

YAML 1.1 and 1.2 differ in the texts that they read as numbers, dates or booleans, and the readers of Envoy
(`yaml-cpp`), of Kubernetes (`go-yaml`) and of Python each add other ones. So a text is written without quotes only if
all of them read it as a text: it begins with a letter, `_` or `/`, and is none of a few words. All other texts are
quoted.

Some letters are line breaks in YAML 1.1 and not in 1.2. A text with such a letter is written with escapes. U+0085 does
not get its short escape, which Envoy's reader takes for half a letter.

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
    """A dumper that is slower, but whose escapes can be chosen."""
    import yaml

    escapes = {letter: name for letter, name in yaml.SafeDumper.ESCAPE_REPLACEMENTS.items() if letter != "\x85"}
    return type("Careful", (_dumper(yaml.SafeDumper),), {"ESCAPE_REPLACEMENTS": escapes})


def _dumper(base: Dumper) -> Dumper:
    class Quoting(base):  # type: ignore[misc, valid-type]
        """Writes repeated values in full: an anchor would be shorter but harder to read."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # If PyYAML itself considers quotes necessary, it writes them in either case.
        plain = _PLAIN.match(value) and value.lower() not in _WORDS
        style = '"' if _BREAKS.search(value) else None if plain else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Quoting.add_representer(str, text)
    return Quoting
