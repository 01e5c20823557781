"""All objects of some kinds in the API server, followed by list and watch, with a call after each change.

This is the tests' own client, which shares no code with the one that is tested.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RETRY_SECONDS = 0.3
WATCH_SECONDS = 300
Object = dict[str, Any]


class Objects:
    """By path of a list: the objects by namespace and name. Each path has a thread."""

    def __init__(self, kubeconfig: Path, paths: tuple[str, ...], changed: Callable[[], None]) -> None:
        content = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster = content["clusters"][0]["cluster"]
        self._server = urlsplit(cluster["server"])
        self._token = content["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=str(kubeconfig.with_name("ca.crt")))
        self._changed = changed
        self.found: dict[str, dict[tuple[str, str], Object]] = {path: {} for path in paths}
        self._listed = {path: threading.Event() for path in paths}
        for path in paths:
            threading.Thread(target=self._follow, args=(path,), daemon=True).start()

    def of(self, path: str) -> list[Object]:
        return list(self.found[path].values())

    @property
    def is_complete(self) -> bool:
        return all(event.is_set() for event in self._listed.values())

    def _follow(self, path: str) -> None:
        while True:
            try:
                self._watch(path, self._list(path))
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                time.sleep(RETRY_SECONDS)

    def _list(self, path: str) -> str:
        """The version of the list."""
        connection, response = self._ask(path)
        content = json.loads(response.read())
        connection.close()
        self.found[path] = {_key(each): each for each in content["items"] or ()}
        self._listed[path].set()
        self._changed()
        return str(content["metadata"]["resourceVersion"])

    def _watch(self, path: str, version: str) -> None:
        options = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        connection, response = self._ask(f"{path}?{options}")
        try:
            while line := response.readline():
                event = json.loads(line)
                kind, each = event["type"], event["object"]
                if kind == "ERROR":
                    return
                if kind == "DELETED":
                    self.found[path].pop(_key(each), None)
                else:
                    self.found[path][_key(each)] = each
                self._changed()
        finally:
            connection.close()

    def _ask(self, path: str) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        assert self._server.hostname is not None
        connection = http.client.HTTPSConnection(
            self._server.hostname, self._server.port, timeout=WATCH_SECONDS + 30, context=self._tls
        )
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"{path}: {response.status}")
        return connection, response


def _key(each: Mapping[str, Any]) -> tuple[str, str]:
    return each["metadata"].get("namespace", ""), each["metadata"]["name"]
