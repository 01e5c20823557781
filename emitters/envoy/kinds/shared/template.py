"""A kind with a template, a user's own Envoy filter: typed configuration in YAML with `${param}` places.

Values are put into scalars of the parsed document and never into its text, so no text can become structure. A scalar
that consists of a single place gets the value with its type, which may be a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from dsl.program import FileArgument, Protocol
from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter, NetworkFilter
from emitters.envoy.messages.typed import PREFIX, Json, UnknownTypeError, duration, message

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import yaml

    from dsl.program import Parameter, Policy, Value
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_PLACE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_CAPITAL: Final = re.compile("[A-Z]")  # protobuf takes the names of fields in either style
_PROGRAMS: Final = frozenset(("cel_expr_string", "expression", "inline_code", "inline_string", "text_format"))
"""Fields that hold Lua, CEL or a log format."""
_FILTER: Final = re.compile(r"envoy\.extensions\.(?:filters\.(http|network)\.|common\.matching\.)|(?:xds|udpa)\.type\.")
"""Prefixes of the types of filters, and of types that can take the place of a filter."""
_LAST: Final = re.compile(
    r"envoy\.extensions\.filters\.(?:http\.(?:router|upstream_codec)|network\.(?:direct_response|echo|generic_proxy|"
    r"http_connection_manager|redis_proxy|reverse_tunnel|tcp_proxy|thrift_proxy))\."
)
"""Filters that end their chain: they forward or answer a request themselves, and no filter behind them sees it."""
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 60


class _TemplateError(Exception):
    pass


class TemplateKind(EnvoyKind):
    """The effects of the filter are unknown: it may write requests, act on responses and answer by itself."""

    replies_with_any_status: ClassVar[bool] = True

    def __init__(self, arguments: Mapping[str, Value]) -> None:
        """The arguments are no attributes: their names are the user's, and may be those of methods of this class.

        `_configuration` takes them from the policy."""

    def check(self, context: Context, policy: Policy) -> None:
        _configuration(context, policy)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        configuration = _configuration(context, policy)
        return HttpFilter(configuration, on_response=True, writes_request=True, writes_anything=True)

    def network_filter(self, context: Context, hop: Hop, policy: Policy) -> NetworkFilter:
        return NetworkFilter({"name": policy.name, "typed_config": _configuration(context, policy)})


def _configuration(context: Context, policy: Policy) -> Json:
    """The typed configuration that a policy's template describes; empty, with a finding, if it cannot be used."""
    template = policy.kind.template
    assert template is not None  # noqa: S101 - called for such kinds only
    try:
        document = _parse(template.text)
        values = {
            parameter.name: _json(parameter, policy.arguments[parameter.name]) for parameter in policy.kind.parameters
        }
        filled = _fill(document, values, 0)
        if not isinstance(filled, dict) or not isinstance(filled.get("@type"), str):
            raise _TemplateError("it is not a mapping with an `@type`")
        _check(filled, policy.kind.protocols)
    except _TemplateError as error:
        context.refuse(
            "ADM706",
            f"the template `{template.path}` of `{policy.kind.name}` cannot be used: {error}",
            policy,
            cause="a template is the typed configuration of one Envoy filter, in YAML",
            hint='begin with `"@type": type.googleapis.com/...` and the fields of that message',
            span=template.span,
        )
        return {}
    return filled


def _check(config: Json, protocols: Collection[Protocol]) -> None:
    """Checks that a configuration is a message of Envoy, and a filter for these protocols. Raises `_TemplateError`."""
    from google.protobuf.json_format import ParseError

    from emitters.envoy.messages.constraints import BrokenRulesError

    name = config["@type"].removeprefix(PREFIX)
    filter_type = _FILTER.match(name)
    if not filter_type or name.endswith("PerRoute"):
        raise _TemplateError(f"`{name[:100]}` is not a filter")
    for protocol in sorted(protocols):
        layer = "network" if protocol is Protocol.TCP else "http"
        if filter_type[1] not in (None, layer):
            raise _TemplateError(f"`{name[:100]}` is no filter for `{protocol}`, which needs one of `filters.{layer}`")
    _let_others_follow(config)
    try:
        message(name, {key: value for key, value in config.items() if key != "@type"})
    except UnknownTypeError as error:
        raise _TemplateError(f"no message of Envoy is called `{error}`") from None
    except BrokenRulesError as error:
        raise _TemplateError(f"Envoy would refuse it: {error}") from None
    except (ParseError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _TemplateError(_misfit(name, str(error))) from None


def _let_others_follow(node: Any) -> None:
    """Checks that no filter in a configuration, at any depth, ends its chain: the policies behind it would see
    nothing."""
    if isinstance(node, dict):
        for key in ("@type", "type_url", "typeUrl"):
            name = str(node.get(key, "")).rpartition("/")[2]
            if _LAST.match(name):
                raise _TemplateError(f"`{name[:100]}` is the last filter of its chain, and policies may follow")
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _let_others_follow(item)


def _misfit(name: str, reason: str) -> str:
    """The message of protobuf, without its internal terms."""
    unknown = re.search(r'no field named "([^"]+)"', reason)
    if unknown is not None:
        return f"`{name}` has no field `{unknown[1]}`"
    fields = re.findall(r"Failed to parse (\S+) field", reason)
    if fields:
        return f"the value of `{fields[-1]}` is not one that `{name}` can hold"
    return f"it is not a `{name}`"


def _parse(text: str) -> Any:
    import yaml

    try:
        # Anchors could make a small document large, and no filter needs them.
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader), start=1):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise _TemplateError("it is nested too deeply")
            if isinstance(event, yaml.AliasEvent):
                raise _TemplateError("it uses a YAML alias")
            if count > _MAX_NODES:
                raise _TemplateError(f"it has more than {_MAX_NODES:,} values")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise _TemplateError(f"it is not YAML ({_yaml_problem(error)})") from None
    except RecursionError:
        raise _TemplateError("it is nested too deeply") from None


def _yaml_problem(error: yaml.YAMLError | ValueError) -> str:
    """The problem and its place, without the lines themselves, which may be those of any file."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "a value in it cannot be read"
    return problem if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _json(parameter: Parameter, value: Value) -> Any:
    """An argument as JSON writes it: durations as protobuf does, files by their content."""
    if value is None:
        return None
    if isinstance(value, FileArgument):
        try:
            return value.content.decode()
        except UnicodeDecodeError:
            raise _TemplateError(f"the file of `{parameter.name}` is not text") from None
    if isinstance(value, tuple):
        element = parameter.type.element
        if element is None:
            return [str(item) for item in value]
        return [_json(parameter._replace(type=element), item) for item in cast("tuple[Value, ...]", value)]
    if parameter.type.name == "duration" and isinstance(value, int):
        return duration(value)
    return value


def _fill(node: Any, values: dict[str, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise _TemplateError("it is nested too deeply")
    if isinstance(node, dict):
        filled = {}
        for key, item in node.items():
            if not isinstance(key, str):
                raise _TemplateError(f"the key `{key}` is not text")
            field = _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", key)
            if field == "ads":
                raise _TemplateError("it asks an xDS server for configuration, and none knows any but admc's")
            if field in _PROGRAMS and isinstance(item, str):
                _only_numbers(item, values)
            value = _fill(item, values, depth + 1)
            if value is not None:
                filled[key] = value
        return filled
    if isinstance(node, list):
        return [_fill(item, values, depth + 1) for item in node]
    if isinstance(node, str):
        return _text(node, values)
    if node is None or isinstance(node, bool | int | float):
        return node
    raise _TemplateError(f"the value `{node}` is neither text nor a number; quote it")


def _only_numbers(text: str, values: dict[str, Any]) -> None:
    """Refuses texts inside of a text that is a program: they would become a part of the program.

    A parameter may be the whole program.
    """
    for place in _PLACE.finditer(text):
        if place[0] != text and isinstance(_value(place[1], values), str):
            raise _TemplateError(
                f"`{place[0]}` stands inside a program or a format, where its text would be obeyed and not only read"
            )


def _text(text: str, values: dict[str, Any]) -> Any:
    whole = _PLACE.fullmatch(text)
    if whole is not None:
        return _value(whole[1], values)

    def one(place: re.Match[str]) -> str:
        value = _value(place[1], values)
        if isinstance(value, list):
            raise _TemplateError(f"`${{{place[1]}}}` is a list and stands inside other text")
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return _PLACE.sub(one, text)


def _value(name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        raise _TemplateError(f"`${{{name}}}` names no parameter")
    return values[name]
