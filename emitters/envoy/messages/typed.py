"""Envoy messages, written down as the JSON that Envoy's own documentation uses, and checked against its schema.

Configuration is built as plain data (`typed` adds the type of an extension) and becomes a protobuf message in one
place, `message`: a field that Envoy does not know, or a value of the wrong type, is an error there and not in a
running proxy. Importing all of Envoy's messages takes a second, so each is imported when it is first named. YAML is
imported where it is used, too: a check of what Envoy cannot express needs none.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from emitters.envoy.messages import constraints
from emitters.yaml_writer import dump

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any as PackedAny
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Json = dict[str, Any]
"""A message as JSON. Its schema, and not the type checker, checks its fields (`message`)."""
PREFIX: Final = "type.googleapis.com/"
_ANY: Final = "google.protobuf.Any"


class UnknownTypeError(ValueError):
    """A type name that no Envoy message has; the message is the name."""


def typed(type_name: str, **fields: Any) -> Json:
    """The configuration of an extension: `@type` and its fields, without those that are None."""
    return {"@type": PREFIX + type_name, **{key: value for key, value in fields.items() if value is not None}}


def extension(name: str, type_name: str, **fields: Any) -> Json:
    """A named extension (`TypedExtensionConfig` and all messages of its shape)."""
    return {"name": name, "typed_config": typed(type_name, **fields)}


def duration(microseconds: int) -> str:
    """A protobuf duration as JSON writes it."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{seconds}.{rest:06d}s" if rest else f"{seconds}s"


@cache
def load(type_name: str) -> None:
    """Imports the module that defines a message. Raises `UnknownTypeError`."""
    package, _, _ = type_name.rpartition(".")
    if not package.startswith(("envoy.", "xds.", "google.protobuf")) or ".." in package:
        raise UnknownTypeError(type_name)
    try:
        parent = importlib.import_module(package)
    except ImportError:
        raise UnknownTypeError(type_name) from None
    for module in pkgutil.iter_modules(parent.__path__):
        if module.name.endswith("_pb2"):
            importlib.import_module(f"{package}.{module.name}")
    _descriptor(type_name)


def _descriptor(type_name: str) -> Descriptor:
    from google.protobuf import descriptor_pool

    try:
        return descriptor_pool.Default().FindMessageTypeByName(type_name)
    except KeyError:
        raise UnknownTypeError(type_name) from None


def _load_all(value: Any) -> None:
    """Imports the types of all extensions in a part of a message as JSON."""
    if isinstance(value, dict):
        name = value.get("@type")
        if isinstance(name, str):
            load(name.removeprefix(PREFIX))
        for item in value.values():
            _load_all(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _load_all(item)


def message(type_name: str, value: Json) -> Message:
    """The message that a JSON value describes.

    Raises `UnknownTypeError`, protobuf's `ParseError`, or `BrokenRulesError` where Envoy would refuse it.
    """
    from google.protobuf import json_format, message_factory

    load(type_name)
    _load_all(value)
    target: Message = message_factory.GetMessageClass(_descriptor(type_name))()
    _pack_anew(json_format.ParseDict(value, target))
    constraints.check(target)
    return target


def _pack_anew(item: Message) -> None:
    """Packs the extensions in a message again, as the same bytes in every process. The protobuf library packs the maps
    in them (fields of a log, settings by filter) in an order that differs from process to process."""
    if item.DESCRIPTOR.full_name == _ANY:
        _pack_one(cast("PackedAny", item))
        return
    for field, value in item.ListFields():
        if field.message_type is None or not _may_pack(field.message_type):
            continue
        if not field.is_repeated:
            _pack_anew(value)
        elif not field.message_type.GetOptions().map_entry:
            for inner in value:
                _pack_anew(inner)
        elif field.message_type.fields_by_name["value"].message_type is not None:
            for inner in value.values():
                _pack_anew(inner)


def _pack_one(packed: PackedAny) -> None:
    from google.protobuf import message_factory

    content = message_factory.GetMessageClass(_descriptor(packed.TypeName())).FromString(packed.value)
    _pack_anew(content)
    packed.value = content.SerializeToString(deterministic=True)


@cache
def _may_pack(descriptor: Descriptor) -> bool:
    """Whether messages of a type can have extensions in them, at any depth."""
    seen = {descriptor.full_name}
    left = [descriptor]
    while left:
        inner = left.pop()
        if inner.full_name == _ANY:
            return True
        for field in inner.fields:
            if field.message_type is not None and field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                left.append(field.message_type)
    return False


def to_json(item: Message) -> Json:
    """A message as JSON in canonical order: type and name first, then fields by name."""
    from google.protobuf import json_format

    return ordered(json_format.MessageToDict(item, preserving_proto_field_name=True))


def ordered(value: Json) -> Json:
    """The JSON of a message with type and name first, and then the other fields by name."""
    result: Json = _ordered(value)
    return result


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (key != "@type", key != "name", key))
        return {key: _ordered(value[key]) for key in keys}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value


def to_yaml(value: Json) -> bytes:
    """YAML in the order of the keys."""
    return dump(value, width=120).encode()
