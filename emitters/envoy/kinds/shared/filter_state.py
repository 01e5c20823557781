"""Filter state: a note that a filter leaves on a request or a connection, for the filters and logs behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emitters.envoy.messages.typed import Json


def set_state(key: str, value: str) -> Json:
    """An entry of `SetFilterState`; `value` is a format string."""
    return {
        "object_key": key,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": value}},
    }
