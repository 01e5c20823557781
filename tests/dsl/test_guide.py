"""`dsl/kinds.toml` speaks of the kinds as the prelude has them, and its examples are programs."""

from __future__ import annotations

import pytest

from dsl.diagnostics.diagnostic import Severity
from dsl.kinds.prelude import kinds
from dsl.vocabulary.guide import guides
from tests.dsl.guide import FILES, program
from tests.dsl.programs import load

EXAMPLES = [
    pytest.param(guide.kind, example.text, id=f"{guide.kind}: {example.title}")
    for guide in guides().values()
    for example in guide.examples
]


def test_every_kind_of_the_prelude_has_its_guide() -> None:
    assert guides().keys() == kinds().keys(), "describe each kind of `dsl/prelude.adm` in `dsl/kinds.toml`"


@pytest.mark.parametrize("kind", guides())
def test_a_guide_says_all_of_its_kind_and_no_more(kind: str) -> None:
    guide = guides()[kind]
    assert [*guide.parameters] == [parameter.name for parameter in kinds()[kind].kind.parameters]
    assert guide.examples
    assert guide.equivalents
    for text in (guide.does, *guide.parameters.values(), *(said for _, said in guide.equivalents)):
        assert text[0].islower() or text[0] == "`" or text.startswith("HTTP")
        assert not text.endswith(".")
    words = {word for item in kinds()[kind].kind.parameters for word in (item.type.element or item.type).items}
    assert set(guide.words.values()) <= words


def test_every_parameter_is_in_some_example() -> None:
    unseen = {
        f"{kind}.{name}"
        for kind, guide in guides().items()
        for name in guide.parameters
        if not any(f"{name}:" in example.text for example in guide.examples)
    }
    assert unseen == set()


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_an_example_loads_without_a_finding(kind: str, text: str) -> None:
    loaded = load(program(text), FILES)
    assert kind in {policy.kind.name for policy in loaded.policies}
    assert [item.message for item in loaded.warnings if item.severity is Severity.WARNING] == []
