"""Reads manifests: a stream of YAML or JSON documents, which may be hostile, with the place of each value in the text.

Depth and size of the stream are checked before anything is built from it. While it is built, an alias counts as the
value that it stands for. A key that is there twice is an error: readers differ in which of the two values they take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from admc.base.exits import CommandError, Exit
from admc.kubernetes.inject import scalars
from admc.kubernetes.inject.model import Where
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import TemplateFinding

MAX_FILE: Final = 32_000_000
MAX_DEPTH: Final = 60
MAX_VALUES: Final = 2_000_000
"""The most values in one file, where each use of an alias counts."""
MAX_TEXT: Final = 2 * MAX_FILE
"""The most characters of all values in one file."""
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
DEFAULT_NAMESPACE: Final = "default"
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """One document of a stream."""

    source: SourceText
    node: yaml.Node
    data: Any


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
    def template(self) -> Where | None:
        """The place of the pod template in the object; None without one."""
        return TEMPLATES.get((str(self.data.get("apiVersion", "")), self.kind))


def read(path: str, content: bytes) -> tuple[Document, ...]:
    """The documents of a file. Raises `CommandError`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _wrong(f"`{path}` is not UTF-8 text", None, f"byte {error.start} is none of it") from error
    source = SourceText(path, text)
    try:
        _scan(source)
        reader = _Reader(source)
        nodes = [node for node in yaml.compose_all(text, Loader=LOADER) if node is not None]
        return tuple(Document(source, node, reader.data(node)) for node in nodes)
    except yaml.YAMLError as error:
        raise _malformed(source, error) from error


def objects(documents: tuple[Document, ...], namespace: str = DEFAULT_NAMESPACE) -> Iterator[Object]:
    """Yield all Kubernetes objects, those in lists one by one. `namespace` is that of an object which names none."""
    for document in documents:
        yield from _objects(document, (), document.data, namespace)


def _objects(document: Document, where: Where, data: Any, namespace: str) -> Iterator[Object]:
    if not isinstance(data, dict):
        return
    items, kind = data.get("items"), str(data.get("kind", ""))
    if kind.endswith("List") and isinstance(items, list):
        # Items of a list from the API server lack `apiVersion` and `kind`, and `kubectl apply` adds them.
        inherited = {"apiVersion": data.get("apiVersion"), "kind": kind.removesuffix("List")}
        for index, item in enumerate(items):
            named = not isinstance(item, dict) or "kind" in item or "apiVersion" in item
            yield from _objects(document, (*where, "items", index), item if named else {**inherited, **item}, namespace)
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


def diagnostic(finding: TemplateFinding, manifest: Object, *, in_template: bool = True) -> Diagnostic:
    """Return the diagnostic of a finding, with its line. The finding is about the template of an object, or about the
    object."""
    name = f"{manifest.kind} `{manifest.namespace}/{manifest.name}`"
    where = (*manifest.where, *(manifest.template or () if in_template else ()), *finding.where)
    span = _span(manifest.document, where)
    return Diagnostic(finding.code, finding.severity, f"{name}: {finding.message}", span, finding.cause, finding.hint)


def _span(document: Document, where: Where) -> Span:
    node, shown = document.node, document.node
    for part in where:
        inner = _child(node, part)
        if inner is None:
            break
        node, shown = inner
    line_end = document.source.text.find("\n", shown.start_mark.index)
    end = min(shown.end_mark.index, line_end if line_end >= 0 else len(document.source.text))
    return Span(document.source, shown.start_mark.index, max(end, shown.start_mark.index))


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the value, and the node that an excerpt shows for it: its key in a mapping."""
    if isinstance(node, yaml.MappingNode):
        return next(((value, key) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _scan(source: SourceText) -> None:
    """Check the bounds before any recursive function reads the stream."""
    depth = count = 0
    for event in yaml.parse(source.text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise _wrong(f"a value is nested deeper than {MAX_DEPTH}", _marked(source, event.start_mark))
        if count > MAX_VALUES:
            raise _too_large(_marked(source, event.start_mark))


class _Reader:
    """Turns the nodes of one file into plain data, as `kubectl` reads them."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._loader = yaml.SafeLoader("")
        self._left = MAX_VALUES
        self._text = MAX_TEXT

    def data(self, node: yaml.Node, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _too_large(_marked(self._source, node.start_mark))
        if depth > MAX_DEPTH:
            # `_scan` has checked the depth of the text, so an alias stands for a value around it.
            raise _wrong("an alias stands for what it is in", _marked(self._source, node.start_mark))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.data(item, depth + 1) for item in node.value]
        return self._mapping(node, depth)

    def _scalar(self, node: yaml.ScalarNode) -> scalars.Value:
        self._count(node)
        if self._is_untagged(node):
            return node.value if node.style else scalars.plain(node.value)
        try:
            scalar = self._loader.construct_object(node)
        except ValueError:
            scalar = None  # such as an impossible date
        if not isinstance(scalar, str | int | float):
            raise _wrong("a value has a tag that JSON has no type for", _marked(self._source, node.start_mark))
        return scalar

    def _count(self, node: yaml.ScalarNode) -> None:
        self._text -= len(node.value)
        if self._text < 0:
            raise _too_large(_marked(self._source, node.start_mark))

    def _is_untagged(self, node: yaml.ScalarNode) -> bool:
        implicit = (False, True) if node.style else (True, False)
        tag = self._loader.resolve(yaml.ScalarNode, node.value, implicit)  # type: ignore[no-untyped-call]
        return bool(node.tag == tag)

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            return None
        self._count(node)
        return scalars.key(node.value) if not node.style and self._is_untagged(node) else str(node.value)

    def _mapping(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                inner = self.data(value, depth + 1)
                for mapping in reversed(inner if isinstance(inner, list) else [inner]):
                    merged.update(mapping if isinstance(mapping, dict) else {})
                continue
            name = self._key(key)
            if name is None:
                raise _wrong("a key is not a text", _marked(self._source, key.start_mark))
            if name in fields:
                cause = "readers differ in which of the two values they take"
                raise _wrong(f"the key `{name[:100]}` is there twice", _marked(self._source, key.start_mark), cause)
            fields[name] = self.data(value, depth + 1)
        return {**merged, **fields} if merged else fields


def _marked(source: SourceText, mark: Any) -> Span:
    start = min(mark.index, len(source.text))
    return Span(source, start, min(start + 1, len(source.text)))


def _malformed(source: SourceText, error: yaml.YAMLError) -> CommandError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    # A reader's error has its place in bytes or none, and no mark.
    cause = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    return _wrong(f"`{source.path}` is not YAML", None if mark is None else _marked(source, mark), cause)


def _too_large(span: Span) -> CommandError:
    cause = f"with aliases written out, it has more than {MAX_VALUES:,} values or {MAX_TEXT:,} characters"
    return _wrong("the manifests are too large", span, cause)


def _wrong(message: str, span: Span | None, cause: str | None = None) -> CommandError:
    return CommandError(Exit.INPUT, [Diagnostic("ADM927", Severity.ERROR, message, span, cause)])
