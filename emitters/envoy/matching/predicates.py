"""Predicates of Envoy's matching API, and a policy's `when` as such a predicate.

A predicate decides whether a filter is skipped, which route of a route table applies, or which filter chain takes a
connection.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from dsl.match import HOST, And, Comparison, Elements, Match, Not, Operator, Or, elements_of
from emitters.envoy.held_headers import inside
from emitters.envoy.matching import header_elements
from emitters.envoy.messages.typed import Json, extension, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emitters.addresses import Network

Predicate = Json

_NO_PEER: Final[tuple[Network, ...]] = (ipaddress.ip_network("0.0.0.0/32"),)
HEADER_INPUT: Final = "envoy.type.matcher.v3.HttpRequestHeaderMatchInput"
_ANSWER_INPUT: Final = "envoy.type.matcher.v3.HttpResponseHeaderMatchInput"
CONDITIONAL: Final = "envoy.extensions.common.matching.v3.ExtensionWithMatcher"
"""The type of a filter's configuration that holds under conditions."""
INPUTS: Final = "envoy.extensions.matching.common_inputs.network.v3."
_SKIP: Final = extension("skip", "envoy.extensions.filters.common.matcher.action.v3.SkipFilter")


# ---- predicates ----


def header_predicate(name: str, matcher: Json) -> Predicate:
    """A request header (or `:path`, `:method`) has a value that satisfies a `StringMatcher`."""
    return _single(extension("request-headers", HEADER_INPUT, header_name=name), matcher)


def answer_predicate(name: str, matcher: Json) -> Predicate:
    """A response header has a value that satisfies a `StringMatcher`."""
    return _single(extension("response-headers", _ANSWER_INPUT, header_name=name), matcher)


def state_predicate(key: str, value: str) -> Predicate:
    """An object that an outer filter put into the request's filter state has this value."""
    return _single(extension("filter-state", INPUTS + "FilterStateInput", key=key), {"exact": value})


def _single(source: Json, matcher: Json) -> Predicate:
    return {"single_predicate": {"input": source, "value_match": matcher}}


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else {"and_matcher": {"predicate": list(predicates)}}


def any_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else {"or_matcher": {"predicate": list(predicates)}}


def negation(predicate: Predicate) -> Predicate:
    inner: Predicate | None = predicate.get("not_matcher")
    return inner if inner is not None else {"not_matcher": predicate}


def cidr(network: Network) -> Json:
    return {"address_prefix": str(network.network_address), "prefix_len": network.prefixlen}


def address_predicate(networks: Sequence[Network], name: str, *, source: str = "DirectSourceIPInput") -> Predicate:
    """The direct peer (or another address) is in one of the networks. Without a network this never holds: no peer has
    the address 0.0.0.0."""
    ranges = [cidr(network) for network in networks or _NO_PEER]
    return {
        "single_predicate": {
            "input": extension("address", INPUTS + source),
            "custom_match": extension(
                "networks",
                "envoy.extensions.matching.input_matchers.ip.v3.Ip",
                cidr_ranges=ranges,
                stat_prefix=name,
            ),
        }
    }


# ---- matches ----


def match_predicate(match: Match) -> Predicate:
    """The predicate of a match (`when`). It compares the path without the query; a missing header equals nothing."""
    match match:
        case Comparison():
            return _comparison(match)
        case Not(operand):
            return negation(match_predicate(operand))
        case And(operands):
            return all_of([match_predicate(operand) for operand in operands])
        case Or(operands):
            return any_of([match_predicate(operand) for operand in operands])


def _comparison(comparison: Comparison) -> Predicate:
    field, operator, value = comparison
    if operator is Operator.NOT_EQUALS:
        return negation(_comparison(Comparison(field, Operator.EQUALS, value)))
    if field.name == "path":
        return _path(operator, value)
    if field == HOST:
        return header_predicate(":authority", _regex(host_expression(operator, value)))
    if field.header is not None:
        return header_predicate(inside(field.header), _regex(compared(operator, value, elements_of(field.header))))
    return header_predicate(":method", _string(operator, value))


def host_expression(operator: Operator, value: str) -> str:
    """The regular expression for the authority of a request that a comparison with its `host` becomes.

    Raises `header_elements.TooIntricateError`. A final dot and a port may follow the host.
    """
    if operator is Operator.MATCHES:
        # The expression matches no `:`, so that it never extends into the port.
        return f"(?i:{header_elements.without(':', value)}){_END_OF_HOST}"
    text = f"(?i:{header_elements.quoted(value)})"
    if ":" in value.partition("]")[2] or (":" in value and not value.startswith("[")):
        return _NOTHING
    if operator is Operator.STARTS_WITH:
        return rf"{text}(?s:.*)"
    return _NOTHING if value.endswith(".") else f"{text}{_END_OF_HOST}"


_END_OF_HOST: Final = r"\.?(?::[^:\]]*)?"
_NOTHING: Final = r"[^\s\S]"


def compared(operator: Operator, value: str, of: Elements) -> str:
    """The regular expression that a comparison with a header becomes. Raises `header_elements.TooIntricateError`."""
    return _LISTS[Operator.EQUALS if operator is Operator.NOT_EQUALS else operator](value, of)


_LISTS: Final = {
    Operator.EQUALS: header_elements.equals,
    Operator.STARTS_WITH: header_elements.starts_with,
    Operator.MATCHES: header_elements.matches,
}
"""Operator -> the function that makes an expression for the whole value of a header and for each element of it."""


def _string(operator: Operator, value: str) -> Json:
    if operator is Operator.STARTS_WITH:
        # Envoy refuses an empty prefix, with which every value begins.
        return {"prefix": value} if value else _regex("(?s).*")
    if operator is Operator.MATCHES:
        # Envoy refuses an empty expression, too.
        return _regex(value or "(?:)")
    return {"exact": value}


def _regex(pattern: str) -> Json:
    return {"safe_regex": {"google_re2": {}, "regex": pattern}}


def _path(operator: Operator, value: str) -> Predicate:
    path = ":path"
    if operator is Operator.MATCHES:
        return header_predicate(path, _regex(path_expression(value)))
    if "?" in value or "#" in value:
        # A path without its query contains neither letter, so no path begins with this value or equals it.
        return header_predicate(path, _regex(_NOTHING))
    if operator is Operator.STARTS_WITH:
        return header_predicate(path, _string(operator, value))
    return any_of([header_predicate(path, {"exact": value}), header_predicate(path, {"prefix": f"{value}?"})])


def path_expression(value: str) -> str:
    """The regular expression for a path and its query that a comparison of the path by `matches` becomes.

    Its part for the path matches no `?`, so that it never extends into the query. Raises
    `header_elements.TooIntricateError`.
    """
    return rf"(?:{header_elements.without('?', value)})(?:\?(?s:.*))?"


def only_where(predicates: Sequence[Predicate], name: str, config: Json) -> Json:
    """A filter's configuration, wrapped so that the filter is skipped unless all predicates hold."""
    if not predicates:
        return config
    return typed(
        CONDITIONAL,
        extension_config={"name": name, "typed_config": config},
        xds_matcher={
            "matcher_list": {
                "matchers": [
                    {"predicate": negation(all_of(predicates)), "on_match": {"action": _SKIP}},
                ]
            }
        },
    )
