"""The check of names finds each way to give a name, and no use of a name that stands elsewhere."""

from __future__ import annotations

import pytest

from tests.names import INSTEAD, find

GIVEN = (
    "{} = 1",
    "{}: int = 1",
    "{} += 1",
    "for {} in ports: ...",
    "for {}, port in ports: ...",
    "for *{}, port in ports: ...",
    "ports = [{} for {} in ports]",
    "if {} := 1: ...",
    "with port as {}: ...",
    "def f({}): ...",
    "def f(*, {}=1): ...",
    "def f(*{}): ...",
    "f = lambda {}: 1",
    "def {}(): ...",
    "async def {}(): ...",
    "class {}: ...",
    "class A:\n    {}: int",
    "class A:\n    def f(self): self.{} = 1",
    "import ports as {}",
    "from ports import port as {}",
    "try: ...\nexcept ValueError as {}: ...",
    "match port:\n    case {}: ...",
    "match port:\n    case [*{}]: ...",
    "match port:\n    case {{**{}}}: ...",
    "match port:\n    case int() as {}: ...",
)


@pytest.mark.parametrize("name", INSTEAD)
@pytest.mark.parametrize("text", GIVEN)
def test_a_name_is_found_where_it_is_given(text: str, name: str) -> None:
    (vague,) = find("dsl/a.py", text.format(name, name))
    assert str(vague) == f"dsl/a.py:{vague.line}: `{name}`: {INSTEAD[name]}"
    assert find("dsl/a.py", text.format("pod", "pod")) == []


@pytest.mark.parametrize(
    "text", ["library.each()", "f(each=1)", "print(found)", '"found"', "# each", "foundation = reached = 1"]
)
def test_a_name_of_a_library_a_text_and_a_part_of_a_name_are_none(text: str) -> None:
    assert find("dsl/a.py", text) == []
