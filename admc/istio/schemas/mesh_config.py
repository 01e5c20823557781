"""Reads a MeshConfig through the descriptors of Istio's own messages, and says what of it is Istio's default.

    plain data --read--> values by name, and violations        values --settings--> Settings

istiod reads over a field that it does not know, so such a field is a warning here. A value that has another type keeps
istiod from starting.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    struct_pb2,
    wrappers_pb2,
)

from admc.istio.schemas.data import descriptors
from admc.istio.schemas.violation import Violation, shown
from dsl.diagnostics.diagnostic import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from admc.manifests.documents import Where

MESH_CONFIG: Final = "istio.mesh.v1alpha1.MeshConfig"
WRONG: Final = "ADM916"
UNKNOWN: Final = "ADM917"
_DURATION: Final = "google.protobuf.Duration"
_FREE: Final = frozenset(("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"))
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Setting(NamedTuple):
    """A setting of the mesh that decides what its sidecars do."""

    name: str
    value: Any
    is_default: bool


# `DefaultMeshConfig` of Istio at the version of the data file, as far as the answer depends on it.
DEFAULTS: Final[dict[str, Any]] = {
    "rootNamespace": "istio-system",
    "trustDomain": "cluster.local",
    "enableAutoMtls": True,
    "outboundTrafficPolicy.mode": "ALLOW_ANY",
    "localityLbSetting.enabled": True,
    "defaultServiceExportTo": ("*",),
    "defaultVirtualServiceExportTo": ("*",),
    "defaultDestinationRuleExportTo": ("*",),
    "defaultHttpRetryPolicy.attempts": 2,
    "pathNormalization.normalization": "DEFAULT",
    "enableTracing": True,
    "accessLogFile": "",
    "enablePrometheusMerge": True,
    "ingressClass": "istio",
    "defaultTrafficPolicy": {},
    "defaultConfig.proxyMetadata": {},
}


def settings(values: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The settings of a mesh, those that are not given with Istio's defaults."""
    made = []
    for name, default in DEFAULTS.items():
        value: Any = values
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        given = tuple(value) if isinstance(value, list) else value
        made.append(Setting(name, default if given is None else given, given is None))
    return tuple(made)


def read_mesh_config(data: object) -> tuple[dict[str, Any], list[Violation]]:
    """The values of a MeshConfig by the names of JSON, and what is wrong with it."""
    message = message_factory.GetMessageClass(_descriptor())
    if not isinstance(data, dict):
        return {}, [Violation(WRONG, (), "the mesh configuration must be a mapping")]
    problems: list[Violation] = []
    known = dict(_known(data, _descriptor(), (), problems))
    try:
        json_format.ParseDict(known, message(), descriptor_pool=_pool())
    except (json_format.ParseError, ValueError, TypeError) as error:
        where = _place_of(error, data)
        return {}, [*problems, Violation(WRONG, where, _in_words(where), "istiod does not start with it")]
    # A message forgets which fields were given with the value zero, which `REGISTRY_ONLY` is.
    return known, problems


def _in_words(where: Where) -> str:
    return (
        f"`{shown(where)}` of the mesh configuration has a value that it cannot have" if where else "it cannot be read"
    )


def _known(
    data: Mapping[str, Any], kind: Descriptor, where: Where, problems: list[Violation]
) -> Iterator[tuple[str, Any]]:
    """Yield the fields that a message has, with durations as JSON has them."""
    fields = {name: field for field in kind.fields for name in (field.json_name, field.name)}
    for key, value in data.items():
        field = fields.get(key)
        if field is None:
            hint = did_you_mean(key, [one.json_name for one in kind.fields])
            around = f"`{shown(where)}`" if where else "the mesh configuration"
            cause = "istiod of this version reads over it"
            problems.append(Violation(UNKNOWN, (*where, key), f"{around} has no field `{key[:100]}`", cause, hint))
        else:
            yield field.json_name, _converted(value, field, (*where, key), problems)


def _converted(value: Any, field: FieldDescriptor, where: Where, problems: list[Violation]) -> Any:
    kind = field.message_type
    if field.enum_type is not None and isinstance(value, int) and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    if kind is None or value is None:
        return value
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        if not isinstance(value, dict):
            return value
        return {key: _converted(part, inner, (*where, key), problems) for key, part in value.items()}
    if field.is_repeated and isinstance(value, list):
        return [_of_message(part, kind, (*where, index), problems) for index, part in enumerate(value)]
    return _of_message(value, kind, where, problems)


def _of_message(value: Any, kind: Descriptor, where: Where, problems: list[Violation]) -> Any:
    if kind.full_name == _DURATION and isinstance(value, str):
        return _duration(value)
    if kind.full_name in _FREE or not isinstance(value, dict):
        return value
    return dict(_known(value, kind, where, problems))


def _duration(text: str) -> str:
    """A duration of Go (`1m30s`) in seconds, as JSON of protobuf has it; another text stays as it is."""
    sign, rest = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    parts = list(_PART.finditer(rest[:100]))
    if not parts or "".join(part[0] for part in parts) != rest:
        return text
    return f"{sign}{sum(float(part[1]) * _SECONDS[part[2]] for part in parts):.9f}s"


def _place_of(error: Exception, data: Any) -> Where:
    """The field that protobuf's message names, as far as the data has it."""
    where: list[str | int] = []
    for name in re.findall(r"Failed to parse (\w+) field", str(error)):
        if not (isinstance(data, dict) and name in data):
            break
        where.append(name)
        data = data[name]
    return tuple(where)


def _descriptor() -> Descriptor:
    descriptor: Descriptor = _pool().FindMessageTypeByName(MESH_CONFIG)
    return descriptor


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """A pool of its own: other packages bring other versions of the same files."""
    pool = descriptor_pool.DescriptorPool()
    for module in (descriptor_pb2, duration_pb2, struct_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    return pool
