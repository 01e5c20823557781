"""A writer of YAML whose text stays text for the readers of Envoy and Kubernetes, which know more booleans than PyYAML.

YAML is imported where it is used: what only looks for what cannot be expressed needs none.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

_TEXT_TO_QUOTE: Final = re.compile(r"[ynYN]|[-+]?0X[0-9A-Fa-f]+")


@cache
def dumper() -> Any:
    import yaml

    class Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
        """Writes repeated values out: an anchor is shorter, and nobody reads it."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # PyYAML would write these plain; others read them as booleans and numbers.
        style = "'" if _TEXT_TO_QUOTE.fullmatch(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper
