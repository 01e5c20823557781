"""Names of Istio, Linkerd and Envoy get a hint, and the suggestion is valid in that place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.kinds.prelude import kinds
from dsl.vocabulary.guide import guides
from tests.dsl.guide import FILES, program
from tests.dsl.programs import findings

FOREIGN_KINDS = [(kind, name) for kind, guide in guides().items() for name in guide.called]
PARAMETERS = [
    (kind, name, meant)
    for kind, guide in guides().items()
    for name, meant in guide.named.items()
    if meant in guide.parameters
]
WORDS = [(kind, word, meant) for kind, guide in guides().items() for word, meant in guide.words.items()]


def error(text: str) -> Diagnostic:
    (found,) = [item for item in findings(text, FILES) if item.severity is Severity.ERROR]
    return found


def written(name: str) -> Iterator[str]:
    """A name in the spelling of Envoy, Istio and Kubernetes."""
    yield name
    camel = re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)
    yield camel
    yield camel[0].upper() + camel[1:]
    yield name.replace("_", "-") if not re.search(r"_[0-9]", name) else name


def replaced(example: str, kind: str, name: str) -> str:
    return re.sub(rf"= {kind}\(", f"= {name}(", example)


@pytest.mark.parametrize(("kind", "name"), FOREIGN_KINDS)
def test_a_kind_of_another_mesh(kind: str, name: str) -> None:
    """The example with the name of the other mesh: the hint names the kind of the original example."""
    assert name not in kinds(), "it is a name of admc, too"
    example = guides()[kind].examples[0].text
    for spelling in written(name):
        found = error(program(replaced(example, kind, spelling)))
        assert found.code == "ADM102"
        assert found.hint is not None
        suggested = re.findall(r"`([a-z_]+)`", found.hint)
        assert kind in suggested
        assert found.hint.startswith("did you mean ")
        for other in suggested:  # each of them takes these arguments
            wrong = [
                item.code
                for item in findings(program(replaced(example, kind, other)), FILES)
                if item.code in ("ADM102", "ADM204", "ADM205", "ADM206", "ADM207")
            ]
            assert wrong == [], other


@pytest.mark.parametrize(("kind", "name", "meant"), PARAMETERS)
def test_a_parameter_of_another_mesh(kind: str, name: str, meant: str) -> None:
    """Of an example that has the parameter; where none has it, the example need not be complete."""
    assert name not in guides()[kind].parameters
    texts = [item.text for item in guides()[kind].examples]
    own = rf"{kind}\(([^()]*?)\b{meant}:"
    example = next((text for text in texts if re.search(own, text)), None)
    foreign = (
        re.sub(rf"{kind}\(", f"{kind}({name}: 1, ", texts[0]).replace(", )", ")")
        if example is None
        else re.sub(own, lambda found: f"{kind}({found[1]}{name}:", example)
    )
    found = error(program(foreign))
    assert found.code == "ADM205"
    assert found.hint == f"did you mean `{meant}`? it is {guides()[kind].parameters[meant]}"


@pytest.mark.parametrize(("kind", "word", "meant"), WORDS)
def test_a_word_of_another_mesh(kind: str, word: str, meant: str) -> None:
    template = {
        "retry": "policy p = retry(attempts: 2, on: [{}]) on web -> api",
        "load_balancing": 'policy p = load_balancing(policy: {}, hash: "x-user") on web -> api',
        "compression": "policy p = compression(algorithm: {}) on web -> api",
        "access_log": "policy p = access_log(format: {}) on web -> api",
    }[kind]
    for spelling in (word, f'"{word}"', f'"{word.upper()}"'):
        found = error(program(template.format(spelling)))
        assert found.hint == f"did you mean `{meant}`?"
    assert [item for item in findings(program(template.format(meant)), FILES) if item.severity is Severity.ERROR] == []


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("retry(attempts: 2, on: [UNAVAILABLE]) on web -> api", "did you mean `unavailable`?"),
        ("retry(attempts: 2, on: 503) on web -> api", "write `[unavailable]`"),
        ('retry(attempts: 2, on: "5xx,connect-failure, reset") on web -> api', "connect_failure, reset]`"),
        ('retry(attempts: 2, on: "5xx,no-such") on web -> api', 'write `["5xx,no-such"]`'),
        ("load_balancing(policy: ROUND_ROBIN) on web -> api", "did you mean `round_robin`?"),
        ("retry(2, [503]) on web -> api", "did you mean `unavailable`?"),
        ("VirtualService(delay: 1s) on web -> api", "did you mean `fault_delay`?"),
        ("VirtualService(timeout: 1s) on web -> api", "did you mean `timeout`?"),
        ("FaultInjection(503) on web -> api", "did you mean `fault_delay` or `fault_abort`?"),
        ("authorization_policy(source: [web]) on * -> api", "did you mean `allow`?"),
        ("AuthorizationPolicy() on * -> api", "did you mean `deny`?"),
        ("PeerAuthentication() on web -> api", "no kind asks for mutual TLS"),
        ("ServiceEntry() on web -> api", "declared as an `external`"),
        ("retry(attempts: 2, per_try_timeout: 1s) on web -> api", "`timeout` that is declared after the `retry`"),
        ('access_log() on web -> api when uri == "/"', "did you mean `path`?"),
        ('access_log() on web -> api when authority == "a"', "did you mean `host`?"),
        ('access_log() on web -> api when path prefix "/"', "did you mean `starts_with`?"),
        ('access_log() on web -> api when path exact "/"', "did you mean `==`?"),
        ('access_log() on web -> api when path regex "/"', "did you mean `matches`?"),
        ('access_log() on web -> api when path contains "/"', "did you mean `matches"),
    ],
)
def test_other_names_of_other_meshes(written: str, hint: str) -> None:
    assert hint in (error(program(f"policy p = {written}")).hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@inbound\npolicy p = access_log() on web -> api", "did you mean `@ingress`?"),
        ("policy p = access_log() on web -> api\npin p at outbound", "did you mean `egress`?"),
        ('@outbound\nkind k() for http template "filter.lua"', "did you mean `@egress`?"),
        ("retry(attempts: 2) on web -> api", "write `policy NAME = retry(...) on SOURCES -> DESTINATIONS`"),
    ],
)
def test_sides_and_statements(text: str, hint: str) -> None:
    hints = [item.hint or "" for item in findings(program(text), FILES)]
    assert any(hint in item for item in hints)


def test_a_kind_of_the_program_has_priority_over_a_name_of_another_mesh() -> None:
    files = {**FILES, "own.yaml": b"a: ${rps}\n"}
    text = '@ingress\nkind throttle(rps: int) for http template "own.yaml"\npolicy p = throttle(rps: 5) on web -> api'
    assert [item for item in findings(program(text), files) if item.severity is Severity.ERROR] == []


def test_parameters_of_a_kind_of_the_program_are_its_own() -> None:
    files = {**FILES, "own.yaml": b"a: ${attempts}\n"}
    text = (
        '@ingress\nkind mine(attempts: int) for http template "own.yaml"\npolicy p = mine(num_retries: 5) on web -> api'
    )
    found = findings(program(text), files)[0]
    assert "it is how often" not in (found.hint or "")
