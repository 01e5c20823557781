"""Label selectors of Kubernetes as sets that can be compared: disjoint, or one inside the other.

A selector is a product of sets: for each label, the values that it allows. Such a set is finite, or the complement of a
finite one; `None` in it stands for an object without the label. So answers about two selectors are exact. Whether a
selector is inside a union of several ones may be answered with False although it is (`within_any`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

MAX_SPLITS: Final = 256
"""The most parts into which a selector is cut to be compared with a union."""


class UnreadableSelectorError(Exception):
    """The selector has a form that this module does not know."""


class Values(NamedTuple):
    """The values that one label may have."""

    named: frozenset[str | None]
    complement: bool = False
    """The label may have all values but `named`."""

    def __and__(self, other: Values) -> Values:
        if self.complement and other.complement:
            return Values(self.named | other.named, complement=True)
        if self.complement:
            return Values(other.named - self.named)
        return Values(self.named - other.named if other.complement else self.named & other.named)

    @property
    def is_empty(self) -> bool:
        return not self.complement and not self.named

    def within(self, other: Values) -> bool:
        if self.complement:
            return other.complement and other.named <= self.named
        return not self.named & other.named if other.complement else self.named <= other.named


ANY: Final = Values(frozenset(), complement=True)

Labels = Mapping[str, Values]
"""The objects that a selector selects: for each label that matters, its values."""


def labels_of(selector: Mapping[str, object]) -> Labels:
    """Return a `LabelSelector` as a set of objects; an empty one selects all. Raises `UnreadableSelectorError`."""
    labels: dict[str, Values] = {}

    def add(key: object, values: Values) -> None:
        if not isinstance(key, str):
            raise UnreadableSelectorError
        labels[key] = labels.get(key, ANY) & values

    for key, value in _mapping(selector.get("matchLabels")).items():
        add(key, Values(_words([value])))
    expressions = selector.get("matchExpressions") or []
    if not isinstance(expressions, list):
        raise UnreadableSelectorError
    for expression in expressions:
        add(*_expression(_mapping(expression)))
    return labels


def _expression(expression: Mapping[str, object]) -> tuple[object, Values]:
    key, operator = expression.get("key"), expression.get("operator")
    if operator == "Exists":
        return key, Values(frozenset((None,)), complement=True)
    if operator == "DoesNotExist":
        return key, Values(frozenset((None,)))
    values = _words(expression.get("values"))
    if operator == "In":
        return key, Values(values)
    if operator == "NotIn":  # also selects objects without the label
        return key, Values(values, complement=True)
    raise UnreadableSelectorError


def _mapping(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableSelectorError
    return value


def _words(values: object) -> frozenset[str | None]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UnreadableSelectorError
    return frozenset(values)


def disjoint(one: Labels, other: Labels) -> bool:
    """Whether no object is in both."""
    return any((one.get(key, ANY) & other.get(key, ANY)).is_empty for key in one.keys() | other.keys())


def within(one: Labels, other: Labels) -> bool:
    """Whether each object of `one` is in `other`."""
    return is_empty(one) or all(one.get(key, ANY).within(values) for key, values in other.items())


def is_empty(labels: Labels) -> bool:
    return any(values.is_empty for values in labels.values())


def within_any(one: Labels, others: Sequence[Labels]) -> bool:
    """Whether each object of `one` is in one of the others. True is certain. False may also mean that the comparison
    takes too many steps, or that a complement would have to be split, as for `{}` in (`a In x`) or (`a NotIn x`)."""
    parts = [one]
    for _ in range(MAX_SPLITS):
        if not parts:
            return True
        part = parts.pop()
        if any(within(part, other) for other in others):
            continue
        halves = _split(part, others)
        if halves is None:
            return False
        parts += halves
    return not parts


def _split(labels: Labels, others: Iterable[Labels]) -> tuple[Labels, Labels] | None:
    """Split a set in two: the first part has one value of some label, the second part its other values. The label has
    to stand in `others`, and to have several values in the set; None if there is no such label."""
    asked = {key for other in others for key in other}
    for key in sorted(asked & labels.keys()):
        values = labels[key]
        if not values.complement and len(values.named) > 1:
            first = min(values.named, key=lambda value: (value is None, value or ""))
            one, rest = Values(frozenset((first,))), Values(values.named - {first})
            return {**labels, key: one}, {**labels, key: rest}
    return None
