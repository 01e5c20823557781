"""Traits of built-in kinds: each names a kind of the prelude and parameters of it, and no user's kind has any."""

from __future__ import annotations

import pickle

import pytest

from dsl.kinds import prelude
from dsl.kinds.built_in import TRAITS
from dsl.program import NO_TRAITS, Kind, Verb
from dsl.values.formats import FORMATS
from tests.dsl.programs import load

KINDS = {name: declared.kind for name, declared in prelude.kinds().items()}


def parameters_of_type(kind: Kind, type_: str) -> list[str]:
    return [
        parameter.name
        for parameter in kind.parameters
        if parameter.type.name == type_ or (parameter.type.element and parameter.type.element.name == type_)
    ]


@pytest.mark.parametrize("name", TRAITS)
def test_traits_belong_to_a_kind_of_the_prelude(name: str) -> None:
    kind = KINDS[name]
    traits = kind.traits
    assert traits == TRAITS[name] != NO_TRAITS
    assert {name for _, name in traits.formats} <= FORMATS.keys()
    assert {parameter for parameter, _ in traits.formats} <= set(parameters_of_type(kind, "string"))
    if traits.ejected_share is not None:
        assert traits.ejected_share in parameters_of_type(kind, "percent")
    if traits.grpc_method is not None:
        assert len(parameters_of_type(kind, "service")) == 1
    if traits.idempotent:
        assert {effect.verb for effect in kind.effects or ()} == {Verb.WRITES}
    if traits.judges_caller_alone:
        assert kind.guard
        assert {effect.verb for effect in kind.effects or ()} == {Verb.REJECTS}
        assert len(parameters_of_type(kind, "caller")) == len(kind.parameters)
    if traits.needs_argument:
        assert all(parameter.optional for parameter in kind.parameters)


def test_kinds_can_be_sent_to_another_process() -> None:
    sent: dict[str, Kind] = pickle.loads(pickle.dumps(KINDS))  # noqa: S301
    assert {name: kind.traits for name, kind in sent.items()} == {name: kind.traits for name, kind in KINDS.items()}


def test_all_other_kinds_have_no_traits() -> None:
    assert {name for name, kind in KINDS.items() if kind.traits != NO_TRAITS} == set(TRAITS)
    program = load(
        'app shop\n@egress\n@effect(none)\nkind note() for http template "note.yaml"\n'
        "service web, api { http 8080 }\ncall web -> api\npolicy p = note() on web -> api\n",
        {"note.yaml": b"name: note\n"},
    )
    assert program.kinds["note"].traits == NO_TRAITS
