"""The API server's rules for versions, in memory: for tests of what follows from a fault at one certain moment."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]


class MemoryApi:
    """`before` and `after` are called for each request with its verb and path, and may raise: after a request that
    changes something, its answer is lost then."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.requests: Counter[str] = Counter()
        self.before: Callable[[str, str], None] = lambda verb, path: None
        self.after: Callable[[str, str], None] = lambda verb, path: None
        self._version = 0

    async def get(self, path: str, **params: object) -> Document:
        self._begin("get", path)
        if "limit" in params:
            label, _, value = str(params.get("labelSelector", "")).partition("=")
            items = [
                copy.deepcopy(item)
                for name, item in sorted(self.objects.items())
                if name.rpartition("/")[0] == path and item["metadata"].get("labels", {}).get(label) == value
            ]
            return {"items": items, "metadata": {"resourceVersion": str(self._version)}}
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"`{path}` is not there")
        return copy.deepcopy(self.objects[path])

    async def create(self, path: str, body: Document) -> Document:
        self._begin("create", path)
        name = f"{path}/{body['metadata']['name']}"
        if name in self.objects:
            raise ApiError(409, "AlreadyExists", "it is there")
        return self._end("create", path, self._put(name, body, uid=f"uid-{self._version}"))

    async def replace(self, path: str, body: Document) -> Document:
        self._begin("replace", path)
        there = self.objects.get(path)
        if there is None:
            raise ApiError(404, "NotFound", "it is not there")
        version = body["metadata"].get("resourceVersion")
        if version is not None and version != there["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has another version")
        assert not there.get("immutable")
        return self._end("replace", path, self._put(path, body, uid=there["metadata"]["uid"]))

    async def apply(self, path: str, body: Document, *, force: bool = True, subresource: str = "") -> Document:
        self._begin("apply", path)
        there = self.objects.get(path)
        uid = there["metadata"]["uid"] if there else f"uid-{self._version}"
        return self._end("apply", path, self._put(path, body, uid=uid))

    async def delete(self, path: str, *, uid: str | None = None) -> Document:
        self._begin("delete", path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", "it is not there")
        if uid is not None and self.objects[path]["metadata"]["uid"] != uid:
            raise ApiError(409, "Conflict", "it has another uid")
        return self._end("delete", path, self.objects.pop(path))

    def _begin(self, verb: str, path: str) -> None:
        self.requests[verb] += 1
        self.before(verb, path)

    def _end(self, verb: str, path: str, answer: Document) -> Document:
        self.after(verb, path)
        return copy.deepcopy(answer)

    def _put(self, name: str, body: Document, uid: str) -> Document:
        self._version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version), "uid": uid}
        self.objects[name] = copy.deepcopy({**body, "metadata": metadata})
        return self.objects[name]
