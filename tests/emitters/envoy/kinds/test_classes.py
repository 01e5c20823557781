"""Each kind of the prelude has one class in one file, and only that file knows the kind by its name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_origin, get_type_hints

import pytest

from admc.cost.measurement.uses import of_prelude
from admc.review.program_tests.kinds import HANDLERS
from dsl.kinds.prelude import kinds
from dsl.program import FileArgument, Protocol, Stage
from emitters.envoy import kinds as package
from emitters.envoy.kinds.interface import EnvoyKind
from emitters.envoy.kinds.registry import built_in, class_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Kind, ParameterType

ROOT = Path(__file__).parents[4]
ROOM = Path(package.__file__).parent
KINDS = {name: declared.kind for name, declared in kinds().items()}
FRAMEWORK = {"__init__", "interface", "registry"}
FIELDS = {"access_log", "timeout"}
"""Fields of Envoy's messages that have the name of a kind."""
TYPES: dict[str, Any] = {"int": int, "duration": int, "size": int, "percent": float, "bool": bool, "file": FileArgument}
"""Parameter types of the language whose values are no text."""


def test_each_kind_has_one_file() -> None:
    files = {path.stem for path in ROOM.glob("*.py")} - FRAMEWORK
    assert files == KINDS.keys(), f"write one file for each kind of `dsl/prelude.adm`, in `{ROOM.relative_to(ROOT)}`"


@pytest.mark.parametrize("name", KINDS)
def test_each_file_has_one_class(name: str) -> None:
    tree = ast.parse((ROOM / f"{name}.py").read_text())
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes == ["".join(word.title() for word in name.split("_"))]
    assert class_of(KINDS[name]) is built_in(name)
    assert built_in(name).__name__ == classes[0]


def python_type(type_: ParameterType, *, optional: bool) -> Any:
    """The type of the values of a parameter."""
    found = tuple[str, ...] if type_.name == "list" else TYPES.get(type_.name, str)
    return found | None if optional else found


@pytest.mark.parametrize("name", KINDS)
def test_the_attributes_of_a_class_are_the_parameters_of_its_kind(name: str) -> None:
    kind = built_in(name)
    names = {**vars(inspect.getmodule(kind)), "FileArgument": FileArgument, "ClassVar": ClassVar}
    found = {
        attribute: type_
        for attribute, type_ in get_type_hints(kind, names).items()
        if get_origin(type_) is not ClassVar and type_ is not ClassVar
    }
    parameters = KINDS[name].parameters
    assert found == {each.name: python_type(each.type, optional=each.optional) for each in parameters}
    assert list(found) == [each.name for each in parameters]


@pytest.mark.parametrize("name", KINDS)
def test_no_parameter_hides_a_member_of_the_interface(name: str) -> None:
    """Arguments become attributes of an instance, which Python prefers to methods and facts of the class."""
    assert {each.name for each in KINDS[name].parameters}.isdisjoint(dir(EnvoyKind))


def needed(kind: Kind) -> Iterator[str]:
    """The methods that a kind needs for the places where its annotations and protocols put it."""
    for stage in kind.sides.values():
        if stage is Stage.ROUTING:
            yield "add_to_route"
        elif stage is Stage.CLUSTER:
            yield "add_to_cluster"
        else:
            if kind.protocols - {Protocol.TCP}:
                yield "http_filter"
            if Protocol.TCP in kind.protocols:
                yield "network_filter"


@pytest.mark.parametrize("name", KINDS)
def test_a_class_works_wherever_its_kind_may_be_enforced(name: str) -> None:
    own = built_in(name)
    # What decides by the caller's name becomes a filter chain of its own (`chains.tcp`).
    by_chain = own.admitted_callers is not EnvoyKind.admitted_callers
    for method in needed(KINDS[name]):
        if method != "network_filter" or not by_chain:
            assert getattr(own, method) is not getattr(EnvoyKind, method), method


# ---- names of kinds, elsewhere ----

PROBES = ROOT / "admc" / "testbed" / "probes"
"""One probe for each kind, found by its name: a request that shows the kind at work."""
TABLES = (ROOT / "admc" / "review" / "program_tests" / "kinds.py", ROOT / "admc" / "cost" / "measurement" / "uses.py")
"""What a kind does to a request, for `admc test`; arguments with which a kind is measured (docs/adr/0020)."""
ISTIO = ROOT / "admc" / "istio"
"""It knows no program: `mirror` is a field of Istio's there."""
SOURCES = sorted(
    path
    for folder in ("emitters", "admc")
    for path in (ROOT / folder).rglob("*.py")
    if not {ROOM, PROBES, ISTIO} & {*path.parents} and path not in TABLES
)


def is_kind_name(node: ast.AST) -> bool:
    """`kind.name`, or `....kind.name`."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Name) and owner.id == "kind") or (
        isinstance(owner, ast.Attribute) and owner.attr == "kind"
    )


def other_names(node: ast.Tuple) -> list[ast.expr]:
    """The elements of a tuple of texts, some of which are no names of kinds."""
    texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
    return node.elts if len(texts) == len(node.elts) and not set(texts) <= KINDS.keys() else []


def uses(tree: ast.Module) -> Iterator[str]:
    """Where a module depends on the name of a kind: compares it with text, looks it up, or has it as text. It may be
    compared with the name of another kind or of a declaration, which are attributes."""
    # A field of a message, as a key, or in a list of fields.
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    keys |= {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    keys |= {id(field) for node in ast.walk(tree) if isinstance(node, ast.Tuple) for field in other_names(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_kind_name, sides)) and not all(isinstance(side, ast.Attribute) for side in sides):
                yield f"line {node.lineno} compares the name of a kind"
        elif isinstance(node, ast.Match) and is_kind_name(node.subject):
            yield f"line {node.lineno} chooses by the name of a kind"
        elif isinstance(node, ast.Subscript) and is_kind_name(node.slice):
            yield f"line {node.lineno} looks up the name of a kind"
        elif isinstance(node, ast.Constant) and node.value in KINDS and not (node.value in FIELDS and id(node) in keys):
            yield f"line {node.lineno} names `{node.value}`"


def test_the_tables_of_kinds_have_every_kind() -> None:
    """A kind that is new in the prelude fails here until it has its rows. Scripts are judged by declared effects."""
    assert HANDLERS.keys() | {"lua", "wasm"} == KINDS.keys()
    assert {use.kind.component for use in of_prelude()} == {kind.component for kind in KINDS.values()}


def test_no_other_module_depends_on_the_name_of_a_kind() -> None:
    found = {str(path.relative_to(ROOT)): list(uses(ast.parse(path.read_text()))) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        'policy.kind.name == "mine"',
        "kind.name in NAMES",
        "TABLE[policy.kind.name]",
        "match policy.kind.name:\n    case other:\n        pass",
        'TABLE = {"rate_limit": 1}',
        'NAMES = ("retry", "timeout")',
        'NAMES = ("access_log", "timeout")',
        'NAMES = ("access_log", "rate_limit", "other")',
    ],
)
def test_dependence_on_the_name_of_a_kind_is_found(text: str) -> None:
    assert list(uses(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "one.kind.name == other.kind.name",
        "statement.name.text == kind.name",
        'route["timeout"] = "0s"',
        'FIELDS = ("access_log", "http_filters")',
        'f"`{kind.name}` is a kind"',
    ],
)
def test_other_uses_are_not(text: str) -> None:
    assert not list(uses(ast.parse(text)))
