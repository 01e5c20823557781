"""Logs the NACKs of one stream up to a bound, because a client may cause NACKs at will."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from xds_server.resources.types import short

if TYPE_CHECKING:
    from xds_server.resources.ack_events import Nacked

LOG: Final = logging.getLogger("xds_server")
LOGGED: Final = 5
"""The most NACKs of one version of a type that are logged for a client. All are counted, and the status shows the
last."""
LOGGED_CHARACTERS: Final = 500
"""The most characters of an error message in the log. The status shows more."""


class NackLog:
    """Logs the NACKs of one stream. A client that asks again for a resource that it refused receives it again."""

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        self._logged: dict[str, tuple[str, int]] = {}
        """By type URL: the version whose NACKs were logged last, and the number of its NACKs."""

    def log(self, node: str, group: str, event: Nacked) -> None:
        version, times = self._logged.get(event.type_url, ("", 0))
        times = times + 1 if version == event.version else 1
        self._logged[event.type_url] = event.version, times
        if times > LOGGED:
            return
        error = event.error.rstrip()
        fields = {
            "node": node,
            "service": group,
            "type": short(event.type_url),
            "version": event.version,
            "said": error if len(error) <= LOGGED_CHARACTERS else error[:LOGGED_CHARACTERS] + " ...",
        }
        LOG.warning("refused", extra=fields)
