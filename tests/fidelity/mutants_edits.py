"""Small mistakes that an emitter could make, as pure functions on the configuration of one hop.

    hop -> hop', both as JSON: {"listener": ..., "clusters": [...]}

An edit that finds nothing to change raises: a mutant that changes nothing would prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
Edit = Callable[[Json], Json]
Change = Callable[[Json], None]

MATCHER = "xds_matcher"


class NothingChangedError(Exception):
    """An edit that does not fit the configuration."""


def every(key: str, change: Callable[[Any], Any], part: str | None = None) -> Edit:
    """`change` of all values of a field; with `part`, the end of a policy's name, inside of its filters only."""

    def edit(hop: Json) -> Json:
        found = [
            node
            for root in (_filters(hop, part) if part is not None else [hop])
            for node in _nodes(root)
            if key in node
        ]
        for node in found:
            changed = change(deepcopy(node[key]))
            if changed is None:
                del node[key]
            else:
                node[key] = changed
        return hop

    return _checked(edit)


def put(key: str, value: Any, part: str | None = None) -> Edit:
    """Another value of a field that is there."""
    return every(key, lambda _: value, part)


def away(key: str, part: str | None = None) -> Edit:
    """A field is missing."""
    return every(key, lambda _: None, part)


def besides(key: str, **fields: Any) -> Edit:
    """Whatever has one field gets others, too."""

    def edit(hop: Json) -> Json:
        for node in _nodes(hop):
            if key in node:
                node.update(fields)
        return hop

    return _checked(edit)


def says(old: str, new: str, part: str | None = None) -> Edit:
    """Text replaced in every string; fields keep their names."""

    def edit(hop: Json) -> Json:
        for root in _filters(hop, part) if part is not None else [hop]:
            _respell(root, old, new)
        return hop

    return _checked(edit)


def without(part: str) -> Edit:
    """A filter is missing."""

    def edit(hop: Json) -> Json:
        for chain in _chains(hop):
            chain[:] = [each for each in chain if not _named(each, part)]
        return hop

    return _checked(edit)


def swapped(one: str, other: str) -> Edit:
    """Two filters have changed places."""

    def edit(hop: Json) -> Json:
        for chain in _chains(hop):
            first = [index for index, each in enumerate(chain) if _named(each, one)]
            second = [index for index, each in enumerate(chain) if _named(each, other)]
            if first and second:
                chain[first[0]], chain[second[0]] = chain[second[0]], chain[first[0]]
        return hop

    return _checked(edit)


def always(part: str) -> Edit:
    """A filter's condition is missing: it takes every request."""

    def edit(hop: Json) -> Json:
        for chain in _chains(hop):
            for each in chain:
                config = each["typed_config"]
                if _named(each, part) and MATCHER in config:
                    each["typed_config"] = config["extension_config"]["typed_config"]
        return hop

    return _checked(edit)


def negated(part: str) -> Edit:
    """A filter takes the requests that it should skip, and skips the others."""

    def edit(hop: Json) -> Json:
        for each in _filters(hop, part):
            for matcher in each["typed_config"][MATCHER]["matcher_list"]["matchers"]:
                predicate = matcher["predicate"]
                matcher["predicate"] = predicate.get("not_matcher", {"not_matcher": predicate})
        return hop

    return _checked(edit)


def connections(change: Change) -> Edit:
    """Something of every HTTP connection manager."""

    def edit(hop: Json) -> Json:
        for node in _nodes(hop["listener"]):
            if "http_filters" in node and "stat_prefix" in node:
                change(node)
        return hop

    return _checked(edit)


def routes(change: Change) -> Edit:
    """Something of every route action."""

    def edit(hop: Json) -> Json:
        for node in _nodes(hop["listener"]):
            if isinstance(node.get("route"), dict):
                change(node["route"])
        return hop

    return _checked(edit)


def routed(change: Change) -> Edit:
    """Something of every matcher that chooses a route."""

    def edit(hop: Json) -> Json:
        for node in _nodes(hop["listener"]):
            for host in node.get("virtual_hosts", ()):
                change(host["matcher"])
        return hop

    return _checked(edit)


def _checked(edit: Edit) -> Edit:
    def checked(hop: Json) -> Json:
        changed = edit(deepcopy(hop))
        if changed == hop:
            raise NothingChangedError
        return changed

    return checked


def _nodes(value: Any) -> list[Json]:
    """All objects of a document, the outermost first."""
    found: list[Json] = []
    if isinstance(value, dict):
        found.append(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _nodes(each)
    return found


def _chains(hop: Json) -> list[list[Json]]:
    """All lists of filters."""
    return [node[key] for node in _nodes(hop) for key in ("http_filters", "filters") if key in node]


def _filters(hop: Json, part: str) -> list[Json]:
    return [each for chain in _chains(hop) for each in chain if _named(each, part)]


def _named(each: Json, part: str) -> bool:
    """A part of a filter's name is the policy's, whatever else is in it."""
    return any(name.endswith(part) for name in re.split("[/:]", each["name"]))


def _respell(value: Any, old: str, new: str) -> None:
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(each, str) and key not in ("@type", "name"):
            value[key] = each.replace(old, new)
        elif isinstance(each, dict | list):
            _respell(each, old, new)
