"""Labels of services: the value of a label without one is the name of the service."""

from __future__ import annotations

import json

import pytest

import dsl
from tests.dsl.programs import findings, load

LABELS = {
    "app": {"app": "NAME"},
    'app  tier = "db"': {"app": "NAME", "tier": "db"},
    'tier = "db"  app': {"app": "NAME", "tier": "db"},
    'tier = "db"': {"tier": "db"},
    '"app.kubernetes.io/name"  tier = "db"': {"app.kubernetes.io/name": "NAME", "tier": "db"},
    'tier = "db" "app.kubernetes.io/name"': {"app.kubernetes.io/name": "NAME", "tier": "db"},
    "app, name": {"app": "NAME", "name": "NAME"},
    "app\nname": {"app": "NAME", "name": "NAME"},
    "app // comment, this\n name,\n": {"app": "NAME", "name": "NAME"},
    '\n  app  tier = "db"\n': {"app": "NAME", "tier": "db"},
    '\n  service tier = "db"\n  call, policy x = "y"\n  app // last\n': {
        **dict.fromkeys(("app", "service", "call", "policy"), "NAME"),
        "tier": "db",
        "x": "y",
    },
    '\n  use "a/b" = "}"\n'.replace('"}"', '"c"'): {"use": "NAME", "a/b": "c"},
    "labels": {"labels": "NAME"},
    'no, adm, http = "x"': {"no": "NAME", "adm": "NAME", "http": "x"},
    "": None,
}


@pytest.mark.parametrize("text", LABELS)
def test_each_service_of_a_body_has_its_own(text: str) -> None:
    written = f"app x\nservice a, b {{ http 80  labels {{ {text} }}  replicas 2 }}\n"
    for program in (load(written), load(dsl.format_text(written))):
        for name, service in program.services.items():
            expected = LABELS[text]
            shown = None if expected is None else {key: name if v == "NAME" else v for key, v in expected.items()}
            assert service.labels == shown
            assert service.replicas == 2


def test_a_selector_matches_it_by_its_value() -> None:
    program = load(
        'app x\nservice a { http 80 }\nservice b, c { http 80  labels { app  tier = "db" } }\ncall a -> b, c\n'
        'policy p = request_count() on a -> [app = "b", tier = "db"]\n'
    )
    assert program.policies[0].destinations == ("b",)


WRONG = {
    'labels { tier "db" }': ("ADM010", '`tier = "db"`'),
    "labels { tier db }": ("ADM010", '`tier = "db"`'),
    'labels { app tier "db" }': ("ADM010", '`app = "tier"`'),
    'labels { app  tier = "x"  app }': ("ADM109", "keep one"),
    "labels { _x_ }": ("ADM210", "letter or digit at both ends"),
    'labels { "/" }': ("ADM210", "letter or digit at both ends"),
    "labels { app = }": ("ADM001", ""),
    'labels { = "x" }': ("ADM001", ""),
    "labels { app: db }": ("ADM001", ""),
}


@pytest.mark.parametrize("text", WRONG)
def test_two_labels_without_a_comma_are_refused(text: str) -> None:
    code, hint = WRONG[text]
    found = findings(f"app x\nservice a, b {{ http 80  {text} }}\n")
    assert found[0].code == code
    assert hint in (found[0].hint or "")
    assert found[0].span is not None
    assert found[0].span.line == 2


@pytest.mark.parametrize("name", ["ends_in_", "_begins", "x" * 64])
def test_a_name_that_no_label_can_have_is_refused(name: str) -> None:
    """Kubernetes would refuse the NetworkPolicy."""
    (found,) = findings(f"app x\nservice good, {name} {{ http 80  labels {{ app }} }}\n")
    assert found.code == "ADM210"
    assert name[:60] in found.message
    assert found.cause == "a label without a value has the name of its service"
    assert not findings(f"app x\nservice good, {name} {{ http 80 }}\n")


def test_labels_that_never_close_end_where_a_statement_begins() -> None:
    for following in ("app x", "service b { http 80 }", "external d", "call a -> c"):
        found = findings(f"service a {{ http 80  labels {{ app\n{following}\nservice c {{ http 80 }}\napp y\n")
        assert found[0].code == "ADM005"
        assert found[0].span is not None
        assert found[0].span.line == 1


def test_null_in_a_topology_is_no_label_without_a_value() -> None:
    """A generator that writes `null` most likely had no value."""
    data = {"services": [{"name": "a", "protocol": "http", "port": 80, "labels": {"app": None}}]}
    (found,) = findings('app x\ntopology "t.json"\n', {"t.json": json.dumps(data).encode()})
    assert (found.code, found.hint) == ("ADM507", "if the value is the name of the service, write that name")
