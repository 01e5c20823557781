"""`@weaker`: which way a change of an argument makes a policy weaker."""

from __future__ import annotations

import dsl
from dsl.kinds.prelude import kinds
from dsl.program import Weaker
from tests.dsl.programs import load

UNCLEAR = {
    "jwt": {"issuer", "jwks", "audiences"},  # an empty list of audiences admits all
    "external_authorization": {"service", "timeout", "fail_open"},  # a timeout refuses, or admits with `fail_open`
    "retry": {"backoff"},
    "outlier_detection": {"interval"},  # the time between looks, also at what may come back
    "load_balancing": {"policy", "hash"},
    "mirror": {"to", "percent"},
    "split": {"to", "percent"},
    "set_request_header": {"name", "value"},
    "add_request_header": {"name", "value"},
    "remove_request_header": {"name"},
    "set_response_header": {"name", "value"},
    "add_response_header": {"name", "value"},
    "remove_response_header": {"name"},
    "rewrite_path": {"prefix", "to"},
    "cors": {"credentials", "max_age"},
    "compression": {"algorithm", "min_size"},
    "fault_delay": {"delay", "percent"},
    "fault_abort": {"status", "percent"},
    "access_log": {"format"},
    "tap": {"directory"},
    "lua": {"script"},
    "wasm": {"module", "configuration"},
}
DIRECTIONS = {
    ("rate_limit", "requests"): Weaker.MORE,
    ("rate_limit", "per"): Weaker.LESS,
    ("rate_limit", "burst"): Weaker.MORE,
    ("connection_rate_limit", "connections"): Weaker.MORE,
    ("connection_rate_limit", "per"): Weaker.LESS,
    ("connection_rate_limit", "burst"): Weaker.MORE,
    ("circuit_breaking", "max_connections"): Weaker.MORE,
    ("circuit_breaking", "max_pending"): Weaker.MORE,
    ("circuit_breaking", "max_requests"): Weaker.MORE,
    ("buffer_limit", "max"): Weaker.MORE,
    ("allow", "callers"): Weaker.ADDED,
    ("retry", "attempts"): Weaker.LESS,
    ("retry", "on"): Weaker.REMOVED,
    ("timeout", "after"): Weaker.MORE,
    ("outlier_detection", "consecutive_errors"): Weaker.MORE,
    ("outlier_detection", "ejection"): Weaker.LESS,
    ("outlier_detection", "max_ejected"): Weaker.LESS,
    ("cors", "origins"): Weaker.ADDED,
    ("cors", "methods"): Weaker.ADDED,
    ("cors", "headers"): Weaker.ADDED,
    ("cors", "expose"): Weaker.ADDED,
}


def test_each_parameter_of_the_prelude_has_a_direction_or_a_reason_to_have_none() -> None:
    found = {
        (name, parameter.name): parameter.weaker
        for name, declared in kinds().items()
        for parameter in declared.kind.parameters
    }
    assert {key: direction for key, direction in found.items() if direction is not None} == DIRECTIONS
    unclear = {(kind, name) for kind, names in UNCLEAR.items() for name in names}
    assert {key for key, direction in found.items() if direction is None} == unclear


def test_a_kind_of_a_user_has_directions() -> None:
    text = """\
app shop
@ingress
@weaker(most: more, wait: less, share: more, size: less, factor: more,
  path: added, names: removed)
kind own(most: int?, wait: duration, share: percent, size: size, factor: float, path: [string], names: [string],
  other: int) for http template "own.yaml"
"""
    program = load(text, {"own.yaml": b"a: 1\n"})
    assert {parameter.name: parameter.weaker for parameter in program.kinds["own"].parameters} == {
        "most": Weaker.MORE,
        "wait": Weaker.LESS,
        "share": Weaker.MORE,
        "size": Weaker.LESS,
        "factor": Weaker.MORE,
        "path": Weaker.ADDED,
        "names": Weaker.REMOVED,
        "other": None,
    }


def test_directions_are_formatted() -> None:
    kind = 'kind own(a: int, b: [string]) for http template "own.yaml"\n'
    written = f"@ingress @weaker( a:less,b :added )\n{kind}"
    formatted = f"@ingress @weaker(a: less, b: added)\n{kind}"
    assert dsl.format_text(written) == formatted
    assert dsl.format_text(formatted) == formatted
