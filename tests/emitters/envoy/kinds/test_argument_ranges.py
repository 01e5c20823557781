"""What `compile` accepts, Envoy accepts, and uses as it is written.

Arguments come from the whole range of their types. Where a policy is not refused, the real Envoy judges it, many of
them in one bootstrap.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import dsl
from dsl import units
from dsl.diagnostics.diagnostic import ProgramError
from dsl.kinds import prelude
from dsl.program import Protocol, Side
from emitters.envoy import check
from solver.place import place
from tests.emitters.envoy.support import ENVOY, bootstraps, load, validate
from tests.emitters.envoy.wasm import module
from tests.fidelity.tokens import keys
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dsl.program import Kind, ParameterType

envoy = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

FILES: Final = {
    "jwks": keys(),
    "lua": b"function envoy_on_request(handle) end\n",
    "wasm": module(),
}
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?s")
LONGEST: Final = 365 * 86_400_000_000


class Drawn(NamedTuple):
    kind: Kind
    side: Side
    arguments: str

    def __repr__(self) -> str:
        return f"{self.side} {self.kind.name}({self.arguments[:200]})"

    def on(self, port: int) -> str:
        to = f"b:p{port}"
        return f"@{self.side}\npolicy p{port} = {self.kind.name}({self.arguments}) on a -> {to}\n"


# ---- values from the whole range of a type ----


def _text(value: str) -> str:
    escaped = "".join(
        letter if " " <= letter <= "~" and letter not in '"\\' else f"\\u{ord(letter):04x}" for letter in value
    )
    return f'"{escaped}"'


STRINGS: Final = st.one_of(
    st.text(st.characters(min_codepoint=0, max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["", "/", "*", "%", "%%", "%REQ(x)%", "on", "1e3", "\r\n", "\t", "é" * 8_192, "x" * 16_384]),
    st.sampled_from(["%" * 8_193, "x" * 16_385, "/" + "y" * 60_000, "://", "https://a.example", "\0"]),
)
DURATIONS: Final = st.one_of(
    st.sampled_from([1, 999, 1_000, 1_001, 9_999, 10_000, 999_999, 1_000_000, LONGEST - 1, LONGEST]),
    st.integers(1, LONGEST),
    st.integers(1, 365 * 86_400_000).map(lambda number: number * 1_000),
    st.integers(1, 365 * 86_400).map(lambda number: number * 1_000_000),
)
SIZES: Final = st.one_of(
    st.sampled_from([0, 1, 2**32 - 1, 2**32, units.LARGEST]), st.integers(0, 2**32 - 1), st.integers(0, units.LARGEST)
)
PERCENTS: Final = st.one_of(
    st.sampled_from(["0", "100", "0.00001", "0.0001", "33.3333", "99.9999", "1"]),
    st.integers(0, 1_000_000).map(lambda number: f"{number // 10_000}.{number % 10_000:04d}"),
    st.integers(0, 100).map(str),
)
HEADERS: Final = st.one_of(
    st.sampled_from(["x-a", "X-" + "a" * 254, "user-agent", "x-envoy-max-retries", "!#$%&'*+.^_`|~-"]),
    st.text("abcXYZ019-_.~", min_size=1, max_size=12),
)

PATHS: Final = st.one_of(
    st.sampled_from(["", "/", "/" + "a" * 4095, "/%25/%00", "/-._~!$&'()*+,;=:@"]),
    st.text("/abcXYZ019-_.~:@", max_size=12).map(lambda text: "/" + text.lstrip("/")),
)


def _ints(type_: ParameterType) -> st.SearchStrategy[str]:
    low = -units.LARGEST if type_.low is None else int(type_.low)
    high = units.LARGEST if type_.high is None else int(type_.high)
    return st.one_of(st.sampled_from([low, low + 1, high - 1, high]), st.integers(low, high)).map(str)


def _values(type_: ParameterType) -> st.SearchStrategy[str]:
    match type_.name:
        case "list":
            assert type_.element is not None
            items = st.lists(_values(type_.element), max_size=3, unique=True)
            return items.map(lambda found: f"[{', '.join(found)}]")
        case "one_of":
            return st.sampled_from(type_.items)
        case "file":
            return st.just(f'"{type_.items[0]}"')
        case "int":
            return _ints(type_)
        case "duration":
            return DURATIONS.map(lambda value: f"{value}us")
        case "size":
            return SIZES.map(lambda value: f"{value}B")
        case "percent":
            return PERCENTS.map(lambda value: f"{value}%")
        case "header":
            return HEADERS.map(_text)
        case "string":
            return STRINGS.map(_text)
        case "path":
            return PATHS.map(_text)
        case "bool":
            return st.sampled_from(("true", "false"))
        case "service" | "caller":
            return st.just("c")
    raise AssertionError(type_.name)


KINDS: Final = tuple(
    (kind.kind, side)
    for kind in prelude.kinds().values()
    for side in kind.kind.sides
    if Protocol.HTTP in kind.kind.protocols
)


@st.composite
def policies(draw: st.DrawFn) -> Drawn:
    kind, side = draw(st.sampled_from(KINDS))
    written = []
    for parameter in kind.parameters:
        optional = parameter.optional or parameter.name in prelude.kinds()[kind.name].defaults
        if not optional or draw(st.booleans()):
            written.append(f"{parameter.name}: {draw(_values(parameter.type))}")
    return Drawn(kind, side, ", ".join(written))


# ---- what is made of them ----


def _program(drawn: Sequence[Drawn]) -> str:
    ports = "\n".join(f"  http p{number} {9000 + number}" for number in range(len(drawn)))
    calls = "\n".join(f"call a -> b:p{number}" for number in range(len(drawn)))
    rules = "".join(one.on(number) for number, one in enumerate(drawn))
    return f"service a, c {{ http 8000 }}\nservice b {{\n{ports}\n}}\ncall a -> c\n{calls}\n{rules}"


def _accepted(one: Drawn) -> bool:
    """Whether `compile` takes a policy by itself."""
    try:
        program = dsl.load_text(f"app test\n{_program([one])}", "test.adm", FILES.__getitem__)
    except ProgramError:
        return False
    return not check(program, place(program))


@pytest.mark.long
@envoy
@examples(2, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(drawn=st.lists(policies(), min_size=40, max_size=60))
def test_what_is_accepted_envoy_accepts_and_keeps(drawn: list[Drawn], tmp_path_factory: pytest.TempPathFactory) -> None:
    taken = [one for one in drawn if _accepted(one)]
    if not taken:
        return
    folder = tmp_path_factory.mktemp("bounds")
    program, placement = load(_program(taken), FILES)
    written = bootstraps(program, placement)
    emitted = {service: yaml.load(content, yaml.CSafeLoader) for service, content in written.items()}
    for service, content in written.items():
        path = folder / f"{service}.yaml"
        path.write_bytes(content)
        assert not validate(path)
    for number, one in enumerate(taken):
        said = program.policy_by_name[f"p{number}"].arguments
        found = _of(emitted["a" if one.side is Side.EGRESS else "b"], 9000 + number)
        for parameter in one.kind.parameters:
            value = said[parameter.name]
            if parameter.type.name == "duration" and one.kind.name not in ("rate_limit", "cors"):
                assert isinstance(value, int)
                assert value in map(_microseconds, _leaves(found)), (one, parameter.name)
            elif parameter.type.name in ("size", "int") and one.kind.name not in ("retry", "rate_limit"):
                assert value is None or str(value) in set(map(str, _leaves(found))), (one, parameter.name)


def _of(bootstrap: Any, port: int) -> list[Any]:
    """All of one port: its listener, its clusters."""
    resources = bootstrap["static_resources"]
    return [item for group in resources.values() for item in group if str(port) in json.dumps(item.get("name", ""))]


def _microseconds(leaf: object) -> Fraction | None:
    return Fraction(leaf[:-1]) * 1_000_000 if isinstance(leaf, str) and _SECONDS.fullmatch(leaf) else None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


_DEEP: Final = (
    "".join(f'(header("a{level}") == "1" or (header("b{level}") == "1" and ' for level in range(8))
    + 'path matches "/a.*"'
    + "))" * 8,
    "".join(f'not (header("a{level}") == "1" or ' for level in range(8)) + 'path matches "/a.*"' + ")" * 8,
)


@envoy
@pytest.mark.parametrize("policy", ["deny() on {0}", "timeout(after: 1s) on a", "allow(callers: [{0}]) on *"])
def test_envoy_reads_the_deepest_match_over_networks_inside_networks(policy: str, tmp_path: Path) -> None:
    """Every second of 29 networks, each inside the one before it, is meant."""
    outside = "\n".join(f'external e{size} {{ cidr "0.0.0.0/{size}" }}' for size in range(2, 31))
    every = ", ".join(f"e{size}" for size in range(2, 31))
    meant = policy.format(", ".join(f"e{size}" for size in range(2, 31, 2)))
    text = f"{outside}\nservice a, b {{ http 8000 }}\ncall {every}, a -> b\n"
    for match in _DEEP:
        program, placement = load(f"{text}policy p = {meant} -> b when {match}\n")
        for service, content in bootstraps(program, placement).items():
            path = tmp_path / f"{service}.yaml"
            path.write_bytes(content)
            assert not validate(path)
