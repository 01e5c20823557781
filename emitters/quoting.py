"""A writer of YAML whose text stays text for every reader.

YAML 1.1 and 1.2 differ in what they read as a number, a date or a boolean, and the readers of Envoy (`yaml-cpp`), of
Kubernetes (`go-yaml`) and of Python each know something more. So only text that none of them can take for anything else
is written plain: it begins with a letter, `_` or `/`, and is none of a few words. All other text is quoted.

YAML is imported where it is used: what only looks for what cannot be expressed needs none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z_/]")
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


@cache
def dumper() -> Any:
    import yaml

    class Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
        """Writes repeated values out: an anchor is shorter and harder to read."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # Where PyYAML sees a need for quotes by itself, it quotes in either case.
        plain = _PLAIN.match(value) and value.lower() not in _WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else "'")

    Dumper.add_representer(str, text)
    return Dumper
