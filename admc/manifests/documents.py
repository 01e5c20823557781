"""One document of a stream, and a Kubernetes object in it. All types are immutable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from admc.manifests.slices import ITEMS, Slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

    from dsl.text import SourceText

Where = tuple[str | int, ...]
"""A place in a document, by keys and positions: `("spec", "containers", 0)`."""

DEFAULT_NAMESPACE: Final = "default"
TEMPLATES: Final[dict[tuple[str, str], Where]] = {
    ("v1", "Pod"): (),
    ("v1", "PodTemplate"): ("template",),
    ("v1", "ReplicationController"): ("spec", "template"),
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "StatefulSet"): ("spec", "template"),
    ("apps/v1", "DaemonSet"): ("spec", "template"),
    ("apps/v1", "ReplicaSet"): ("spec", "template"),
    ("batch/v1", "Job"): ("spec", "template"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""The place of the pod template in each kind; a pod is its own template."""
_SECRET: Final = re.compile(r"""\bkind["']?\s*:\s*["']?Secret""")
_NEAR: Final = 200
"""The characters around a part in which others are looked for: more blanks count as something else."""


@dataclass(frozen=True)
class Document:
    """One document of a stream."""

    source: SourceText
    start: int
    """The place of its first character in the file."""
    end: int
    data: Any
    items: tuple[Slice, ...] = ()
    """The places of the objects in a list, by which a line is found without reading all of a long list again."""
    number: int = 1
    """Its position in the file, counted from 1."""
    index: int = 0
    """Its position among the documents between two separators: `...` also ends one."""

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @cached_property
    def node(self) -> yaml.Node:
        """Its nodes, with marks that count from `start`. They are made at the first use."""
        from itertools import islice

        import yaml

        from admc.manifests.yaml_values import LOADER

        nodes = (node for node in yaml.compose_all(self.text, Loader=LOADER) if node is not None)
        return next(islice(nodes, self.index, None))


@dataclass(frozen=True)
class Object:
    """A Kubernetes object, at the top of a document or in a list."""

    document: Document
    where: Where
    """Its place in the document."""
    data: dict[str, Any]
    default_namespace: str = DEFAULT_NAMESPACE
    """The namespace of an object that names none."""

    @property
    def api_version(self) -> str:
        return str(self.data.get("apiVersion", ""))

    @property
    def group(self) -> str:
        """The API group; empty for that of Pods and Services."""
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        return str(self.data.get("kind", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        metadata = self.data.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def namespace(self) -> str:
        return str(self.own_namespace or self.default_namespace)

    @property
    def own_namespace(self) -> object:
        """The namespace in the manifest, of any type; None if it names none."""
        return self.metadata.get("namespace") or None

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "")

    @property
    def created(self) -> str | None:
        """When the API server created it, as it writes times; None in a manifest that names no time."""
        created = self.metadata.get("creationTimestamp")
        return created if isinstance(created, str) else None

    @property
    def template(self) -> Where | None:
        """The place of the pod template in the object; None without one."""
        return TEMPLATES.get((self.api_version, self.kind))


def objects(document: Document, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Object]:
    """Yield the Kubernetes objects of a document, those in lists one by one. `namespace` is that of an object which
    names none."""
    yield from _objects(document, (), document.data, namespace)


def _objects(document: Document, where: Where, data: Any, namespace: str) -> Iterator[Object]:
    if not isinstance(data, dict):
        return
    items, kind = data.get(ITEMS), str(data.get("kind", ""))
    if kind.endswith("List") and isinstance(items, list):
        # Items of a list from the API server lack `apiVersion` and `kind`, and `kubectl apply` adds them.
        inherited = {"apiVersion": data.get("apiVersion"), "kind": kind.removesuffix("List")}
        for index, item in enumerate(items):
            named = not isinstance(item, dict) or "kind" in item or "apiVersion" in item
            yield from _objects(document, (*where, ITEMS, index), item if named else {**inherited, **item}, namespace)
    else:
        yield Object(document, where, data, namespace)


def at(data: Any, where: Where) -> Any:
    """Return the value at a place; None if there is none."""
    for part in where:
        if isinstance(part, str):
            data = data.get(part) if isinstance(data, dict) else None
        else:
            data = data[part] if isinstance(data, list) and part < len(data) else None
    return data


def replaced(data: Any, where: Where, value: Any) -> Any:
    """Return the data with another value at a place that exists."""
    if not where:
        return value
    copy = data.copy()
    copy[where[0]] = replaced(data[where[0]], where[1:], value)
    return copy


def shown_source(source: SourceText, part: Slice) -> SourceText:
    """The source for messages about a part of it: blank where that part has a Secret, of which no line is shown, or
    where a Secret of the file may be in its lines, as in a list that is one line."""
    is_secret = bool(_SECRET.search(source.text, part.start, part.end))
    return _blank(source) if is_secret or (_shares_lines(source.text, part) and _has_secret(source)) else source


def _shares_lines(text: str, part: Slice) -> bool:
    """Whether something else than blanks, a dash and a comma may be in the lines of a part."""
    first = max(0, part.start - _NEAR)
    before = text[max(first, text.rfind("\n", first, part.start) + 1) : part.start]
    # In YAML the part of an object ends where the next one begins, behind its dash.
    end = part.start + len(text[part.start : part.end].rstrip("- \t\r\n"))
    after, _, _ = text[end : end + _NEAR].partition("\n")
    return bool(before.strip(" \t-") or after.strip(" \t\r,-")) or _NEAR in (len(before), len(after))


@lru_cache(maxsize=2)
def _has_secret(source: SourceText) -> bool:
    return _SECRET.search(source.text) is not None


@lru_cache(maxsize=2)
def _blank(source: SourceText) -> SourceText:
    """One blank text for all messages about a file, which may be large."""
    return source.blank()
