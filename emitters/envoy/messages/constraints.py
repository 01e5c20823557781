"""The rules by which Envoy validates a configuration, applied when the configuration is built.

Most bounds of Envoy's fields are options in its schema (`validate.rules`), which `xds-protos` contains. Every emitted
message is checked against them, with all messages that are packed inside. So most values that Envoy would refuse are
found without an Envoy. Not checked are formats of texts other than header names and values (addresses, for instance).

    message -> BrokenRulesError, which names the paths of the first fields
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from emitters.envoy.messages import embedded

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any as PackedAny
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.message import Message
    from validate.validate_pb2 import EnumRules, FieldRules, MapRules, RepeatedRules, StringRules

_ANY: Final = "google.protobuf.Any"
_SHOWN: Final = 3
_HEADER_NAME: Final = re.compile(r":?[0-9A-Za-z!#$%&'*+.^_|~`-]+")
_LOOSE: Final = re.compile(r"[^\x00\n\r]*")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\n-\x1f\x7f]*")

Check = Callable[[Any], str | None]
"""A function that takes the value of a field and returns the broken rule, if any. Each is for one type of field."""


class BrokenRule(NamedTuple):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"`{self.path}` {self.problem}"


class BrokenRulesError(ValueError):
    """A message that Envoy would refuse; the text names the first fields."""

    def __init__(self, violations: list[BrokenRule]) -> None:
        more = f" and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
        super().__init__("; ".join(map(str, violations[:_SHOWN])) + more)


def check(item: Message) -> None:
    """Checks a message. Raises `BrokenRulesError`."""
    violations: list[BrokenRule] = []
    _walk(item, "", violations)
    if violations:
        raise BrokenRulesError(violations)


def _walk(item: Message, path: str, violations: list[BrokenRule]) -> None:
    descriptor = item.DESCRIPTOR
    if descriptor.full_name == _ANY:
        content = _unpacked(cast("PackedAny", item))
        if content is not None:
            _walk(content, path, violations)
        return
    plan = _plan(descriptor.full_name)
    for name, required in plan.groups:
        if required and item.WhichOneof(name) is None:
            violations.append(BrokenRule(_join(path, name), "has to be given"))
    for name, explicit, test in plan.fields:
        problem = test(None if explicit and not item.HasField(name) else getattr(item, name))
        if problem is not None:
            violations.append(BrokenRule(_join(path, name), problem))
    violations.extend(
        BrokenRule(_join(path, name), problem) for name, problem in embedded.wrong(descriptor.full_name, item)
    )
    for field, value in item.ListFields():
        if field.name not in plan.inner:
            continue
        where = _join(path, field.name)
        if not field.is_repeated:
            _walk(value, where, violations)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, inner in value.items():
                _walk(inner, f"{where}.{str(key)[:60]}", violations)
        else:
            for index, inner in enumerate(value):
                _walk(inner, f"{where}[{index}]", violations)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unpacked(packed: PackedAny) -> Message | None:
    from google.protobuf import descriptor_pool, message_factory

    if not packed.type_url:
        return None
    descriptor = descriptor_pool.Default().FindMessageTypeByName(packed.TypeName())
    return message_factory.GetMessageClass(descriptor).FromString(packed.value)


class _Plan(NamedTuple):
    """The parts of messages of one type that have rules."""

    groups: tuple[tuple[str, bool], ...]
    fields: tuple[tuple[str, bool, Check], ...]
    inner: frozenset[str]
    """Fields with messages that may have rules."""


@cache
def _plan(type_name: str) -> _Plan:
    from google.protobuf import descriptor_pool
    from validate import validate_pb2

    descriptor = descriptor_pool.Default().FindMessageTypeByName(type_name)
    options = descriptor.GetOptions()
    if options.Extensions[validate_pb2.disabled] or options.Extensions[validate_pb2.ignored]:
        return _Plan((), (), frozenset())
    groups = tuple(
        (group.name, True) for group in descriptor.oneofs if group.GetOptions().Extensions[validate_pb2.required]
    )
    fields: list[tuple[str, bool, Check]] = []
    inner: set[str] = set()
    for field in descriptor.fields:
        rules = field.GetOptions().Extensions[validate_pb2.rules]
        test = _field(field, rules)
        if test is not None:
            fields.append((field.name, field.has_presence, test))
        if _has_messages(field) and not rules.message.skip:
            inner.add(field.name)
    return _Plan(groups, tuple(fields), frozenset(inner))


def _has_messages(field: FieldDescriptor) -> bool:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        kind = kind.fields_by_name["value"].message_type
    return kind is not None and not (kind.full_name.startswith("google.protobuf.") and kind.full_name != _ANY)


def _field(field: FieldDescriptor, rules: FieldRules) -> Check | None:
    """The check of one field; it gets `None` where the field is absent."""
    which = rules.WhichOneof("type")
    required = rules.message.required
    if which is None and not required:
        return None
    tests: list[Check] = [] if which is None else _tests(which, getattr(rules, which), field)
    required = required or (which in ("duration", "timestamp", "any") and getattr(rules, which).required)
    # A field of a group (`oneof`) is required only if the group is, and then any field of the group will do.
    required = required and field.containing_oneof is None
    wrapped = field.message_type is not None and not field.is_repeated and which not in (None, "duration", "any")
    if not tests and not required:
        return None

    def test(value: Any) -> str | None:
        if value is None:
            return "has to be given" if required else None
        if wrapped:
            value = value.value
        return next((problem for problem in (check(value) for check in tests) if problem is not None), None)

    return test


def _tests(which: str, rules: Any, field: FieldDescriptor | None) -> list[Check]:
    """The checks of a field by the rules of its type; `rules` are one of some twenty messages, named by `which`."""
    if which == "string":
        return _string(rules)
    if which == "bytes":
        return _lengths(rules, (("min_len", "max_len", len, "bytes"),))
    if which == "repeated":
        return _repeated(rules, field)
    if which == "map":
        return _map(rules)
    if which == "enum":
        return _enum(rules, field)
    if which == "duration":
        return _compared(rules, _nanoseconds, lambda bound: f"{_nanoseconds(bound) / 1e9:g}s")
    if which in ("any", "timestamp", "message"):
        return []
    if which == "bool":
        return [_one_of((rules.const,))] if rules.HasField("const") else []
    return _compared(rules, lambda value: value, lambda bound: f"{bound:g}")


def _nanoseconds(value: Duration) -> int:
    return value.seconds * 1_000_000_000 + value.nanos


_COMPARED: Final[tuple[tuple[str, str, Callable[[Any, Any], bool]], ...]] = (
    ("lt", "less than", lambda value, bound: value < bound),
    ("lte", "at most", lambda value, bound: value <= bound),
    ("gt", "more than", lambda value, bound: value > bound),
    ("gte", "at least", lambda value, bound: value >= bound),
)


def _compared(rules: Any, measure: Callable[[Any], Any], shown: Callable[[Any], str]) -> list[Check]:
    tests: list[Check] = []
    for name, words, holds in _COMPARED:
        if rules.HasField(name):
            bound = getattr(rules, name)
            tests.append(_bound(measure, holds, measure(bound), f"has to be {words} {shown(bound)}"))
    tests += _listed(rules)
    return tests


def _bound(measure: Callable[[Any], Any], holds: Callable[[Any, Any], bool], bound: Any, problem: str) -> Check:
    return lambda value: None if holds(measure(value), bound) else problem


def _listed(rules: Any) -> list[Check]:
    tests: list[Check] = []
    if getattr(rules, "in"):
        tests.append(_one_of(tuple(getattr(rules, "in"))))
    if rules.not_in:
        refused = tuple(rules.not_in)
        tests.append(lambda value: "has a value that Envoy does not take" if value in refused else None)
    if rules.HasField("const"):
        tests.append(_one_of((rules.const,)))
    return tests


def _one_of(taken: tuple[Any, ...]) -> Check:
    problem = f"has to be {' or '.join(map(str, taken))}"
    return lambda value: None if value in taken else problem


def _lengths(rules: Any, limits: tuple[tuple[str, str, Callable[[Any], int], str], ...]) -> list[Check]:
    tests: list[Check] = []
    for least, most, measure, unit in limits:
        if rules.HasField(least):
            bound = getattr(rules, least)
            problem = "is empty" if bound == 1 else f"has less than {bound:,} {unit}"
            tests.append(_bound(measure, lambda size, low: size >= low, bound, problem))
        if rules.HasField(most):
            bound = getattr(rules, most)
            tests.append(_bound(measure, lambda size, high: size <= high, bound, f"has more than {bound:,} {unit}"))
    return tests


def _bytes(value: str) -> int:
    return len(value.encode())


def _string(rules: StringRules) -> list[Check]:
    tests = _lengths(rules, (("min_len", "max_len", len, "characters"), ("min_bytes", "max_bytes", _bytes, "bytes")))
    for name, holds in (("prefix", str.startswith), ("suffix", str.endswith), ("contains", str.__contains__)):
        if rules.HasField(name):
            part = getattr(rules, name)
            words = {"prefix": "begin with", "suffix": "end in", "contains": "contain"}[name]
            tests.append(_bound(str, holds, part, f"has to {words} `{part}`"))
    if rules.HasField("pattern"):
        tests.append(_pattern(rules.pattern))
    tests += _listed(rules)
    well_known = rules.WhichOneof("well_known")
    if well_known == "well_known_regex" and rules.well_known_regex:
        strict = not rules.HasField("strict") or rules.strict
        names = rules.well_known_regex == 1
        allowed = _LOOSE if not strict else _HEADER_NAME if names else _HEADER_VALUE
        problem = f"is no {'name' if names else 'value'} of a header"
        tests.append(lambda value: None if allowed.fullmatch(value) or (not value and not names) else problem)
    if rules.ignore_empty:
        return [_unless_empty(test) for test in tests]
    return tests


def _unless_empty(test: Check) -> Check:
    return lambda value: test(value) if value else None


def _pattern(expression: str) -> Check:
    import re2

    compiled = re2.compile(expression)
    return lambda value: None if compiled.search(value) else f"does not match `{expression}`"


def _repeated(rules: RepeatedRules, field: FieldDescriptor | None) -> list[Check]:
    tests: list[Check] = _lengths(rules, (("min_items", "max_items", len, "items"),))
    if rules.unique:
        tests.append(lambda values: None if len(set(values)) == len(values) else "has an item twice")
    which = rules.items.WhichOneof("type")
    inner = [] if which is None else _tests(which, getattr(rules.items, which), field)
    if inner:
        tests.append(_each(inner, lambda values: values))
    return tests


def _map(rules: MapRules) -> list[Check]:
    tests = _lengths(rules, (("min_pairs", "max_pairs", len, "entries"),))
    taken: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (rules.keys, lambda value: value),
        (rules.values, lambda value: value.values()),
    )
    for part, items in taken:
        which = part.WhichOneof("type")
        inner = [] if which is None else _tests(which, getattr(part, which), None)
        if inner:
            tests.append(_each(inner, items))
    return tests


def _each(tests: list[Check], items: Callable[[Any], Any]) -> Check:
    def test(value: Any) -> str | None:
        for item in items(value):
            for check in tests:
                problem = check(item)
                if problem is not None:
                    return f"has an item that {problem}"
        return None

    return test


def _enum(rules: EnumRules, field: FieldDescriptor | None) -> list[Check]:
    tests: list[Check] = _listed(rules)
    if rules.defined_only and field is not None and field.enum_type is not None:
        known = frozenset(field.enum_type.values_by_number)
        tests.append(lambda value: None if value in known else "has a value that Envoy does not know")
    return tests
