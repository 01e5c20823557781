"""Each state that any server has stored: a watch of the Secrets, which goes on from its last version after a fault."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from admc.kubernetes.cluster.storage.objects import PackedObjects
from admc.kubernetes.cluster.storage.record import (
    INDEX,
    PART,
    content_of,
    index_from_json,
    name_of,
    version_of,
    writer_of,
)
from admc.serve.storage.manifest import from_json
from tests.cluster.api_server import ApiError
from tests.cluster.traffic.mesh import UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.storage.record import Document, Names
    from admc.serve.rollout.rollout_state import RolloutState
    from tests.cluster.api_server import ApiServer

WATCH_SECONDS: Final = 5
SILENT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.1


class Stored(NamedTuple):
    version: str
    """Of the Secret."""
    writer: str
    rollout: RolloutState


class StoredStates:
    """Watches in a thread of its own."""

    def __init__(self, server: ApiServer, names: Names) -> None:
        self._server, self._names = server, names
        self._tls = ssl.create_default_context(cafile=str(server.ca))
        self._parts: dict[str, bytes] = {}
        self._version = ""
        self.found: list[Stored] = []
        """In the order in which they were stored."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                if self._version:
                    self._watch()
                else:
                    self._list()
            except (*UNREACHABLE, json.JSONDecodeError):  # a connection that ends leaves half a line
                self._over.wait(RETRY_SECONDS)

    def _list(self) -> None:
        connection, response = self._ask({})
        try:
            found = json.loads(response.read())
        finally:
            connection.close()
        for each in sorted(found["items"], key=lambda each: content_of(each, PART) is None):
            self._saw(each)
        self._version = str(found["metadata"]["resourceVersion"])

    def _watch(self) -> None:
        connection, response = self._ask(
            {"watch": "true", "resourceVersion": self._version, "timeoutSeconds": WATCH_SECONDS}
        )
        try:
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self._version = ""
                    return
                if event["type"] != "DELETED":
                    self._saw(event["object"])
                self._version = version_of(event["object"])
        finally:
            connection.close()

    def _ask(self, options: Mapping[str, object]) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        place = self._server.place
        connection = http.client.HTTPSConnection(place.address, place.port, timeout=SILENT_SECONDS, context=self._tls)
        with place.network():
            connection.connect()
        query = urlencode({**self._names.selectors, **options})
        headers = {"Authorization": f"Bearer {self._server.admin_token}", "Accept": "application/json"}
        connection.request("GET", f"{self._names.collection}?{query}", headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise ApiError(response.status, response.read(1000).decode(errors="replace"))
        return connection, response

    def _saw(self, secret: Document) -> None:
        """Parts are stored before the Secret that names them."""
        name = name_of(secret)
        part, index = content_of(secret, PART), content_of(secret, INDEX)
        digest = self._names.digest(name)
        if part is not None and digest is not None:
            self._parts[digest] = part
        version = version_of(secret)
        if name != self._names.state or index is None or any(each.version == version for each in self.found):
            return
        objects, written = PackedObjects(), index_from_json(index)
        objects.read(written.packs, self._these)
        rollout = from_json(objects.get(written.manifest)).rollout
        if rollout is not None:
            self.found.append(Stored(version, writer_of(secret), rollout))

    def _these(self, digests: Collection[str]) -> dict[str, bytes]:
        return {each: self._parts[each] for each in digests}
