"""Whether admc uses the selector of a Kubernetes Service.

The users of a namespace write selectors, and each one stands in the `Injection` of its namespace. Without a bound, one
Service could make that object larger than the API server takes, and so hold back new plans for all namespaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LABELS: Final = 16
MAX_CHARACTERS: Final = 1_000
"""Of all keys and values together."""


def unusable(selector: Mapping[str, Any]) -> str:
    """Return why admc does not use a selector; empty if it does."""
    if len(selector) > MAX_LABELS:
        return f"it has {len(selector):,} labels, and admc uses at most {MAX_LABELS}"
    characters = sum(len(key) + len(value) for key, value in selector.items())
    if characters > MAX_CHARACTERS:
        return f"its labels have {characters:,} characters, and admc uses at most {MAX_CHARACTERS:,}"
    return ""
