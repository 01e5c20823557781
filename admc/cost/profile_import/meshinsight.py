"""Makes a profile from the latencies in a pickle of MeshInsight's tool.

    bytes -> [platforms] -> a dictionary for each platform -> [profile] -> Imported

The latencies are regressions on the size of a message, in microseconds for a request and its answer. The tool sends one
request at a time, so the latencies have no rate. CPU figures are not taken: they are regressions on size times rate,
divided by a peak rate that is not in the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.profile_import.pickle_data import Name, Object, PickleError, read
from admc.cost.profiles.profile import (
    SCHEMA_VERSION,
    UNITS,
    HopCost,
    Knot,
    Law,
    Method,
    Part,
    Platform,
    Profile,
    Proxy,
    SidecarCost,
    Sizes,
)
from dsl.program import Protocol

PARTS: Final[Mapping[str, str]] = {
    "ipc": "transfer of data between the sidecar and the application",
    "read": "read system call, and the copy from the kernel to user space",
    "write": "write system call, the copy from user space to the kernel, and the transmission by the network stack",
    "notification": "notification of input and output events",
    "parsing": "parsing of the protocol in the sidecar",
    "other": "other work of the sidecar in user space",
}
_REGRESSIONS: Final[Mapping[str, str]] = {
    "ipc_reg": "ipc",
    "read_reg": "read",
    "write_reg": "write",
    "epoll_reg": "notification",
    "parsing_reg": "parsing",
    "envoy_reg": "other",
}
SIZES: Final = Sizes(Decimal(100), Decimal(4000), Decimal(0))
"""The tool measures messages of 100 to 4,000 bytes, and its intercepts are those of an empty message."""
MAX_ENTRIES: Final = 32
"""Most entries of one dictionary. A file can refer to one many times, so the sizes of nested ones multiply."""
MAX_PLATFORM: Final = 1000
"""Most characters of the name of a platform."""
_PLACES: Final = Decimal("1e-12")
_CPU: Final = (
    "a regression on size times rate, divided by a thousandth of a peak rate that is not in the file: no CPU follows "
    "from it"
)

_REGRESSION: Final = "LinearRegression"
_NAMES: Final = frozenset(
    (
        *(Name(f"sklearn.linear_model.{module}", _REGRESSION) for module in ("_base", "base")),
        *(Name(f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        *(Name(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
        Name("numpy", "ndarray"),
        Name("numpy", "dtype"),
        Name("_codecs", "encode"),
        *(Name(module, "_reconstructor") for module in ("copyreg", "copy_reg")),
        *(Name(module, "object") for module in ("builtins", "__builtin__")),
    )
)
"""All names in such a pickle, for the pickle protocols 0 to 5 and all versions of numpy. None is imported."""


class NotTaken(NamedTuple):
    """A figure of the file that is not in the profile, and the reason."""

    figure: str
    reason: str


class Imported(NamedTuple):
    profile: Profile
    not_taken: tuple[NotTaken, ...]


class _Line(NamedTuple):
    intercept: float
    slope: float


def platforms(content: bytes) -> Mapping[str, Mapping[object, object]]:
    """The profiles in a file by platform. Raises `PickleError`."""
    profiles = read(content, _NAMES)
    return {_platform(key): _dictionary(value, _platform(key)) for key, value in _dictionary(profiles, "it").items()}


def _platform(key: object) -> str:
    words = key if isinstance(key, tuple) else (str(key),)
    if len(words) > MAX_ENTRIES or sum(map(len, words)) > MAX_PLATFORM:
        raise PickleError(f"the name of a platform has more than {MAX_PLATFORM} characters", 0)
    return "; ".join(words)


def _dictionary(value: object, where: str) -> Mapping[object, object]:
    if not isinstance(value, dict) or not value:
        raise PickleError(f"{where} is no dictionary with entries", 0)
    if len(value) > MAX_ENTRIES:
        raise PickleError(f"{where} has more than {MAX_ENTRIES} entries", 0)
    return value


def profile(name: str, platform: str, content: Mapping[object, object]) -> Imported:
    """The profile of one platform of a file. Raises `PickleError`."""
    not_taken: list[NotTaken] = []
    hops: list[HopCost] = []
    for quantity, protocols in content.items():
        if quantity not in ("latency", "cpu"):
            not_taken.append(NotTaken(str(quantity)[:100], "it is neither `latency` nor `cpu`"))
            continue
        for protocol, regressions in _dictionary(protocols, f"`{quantity}`").items():
            where = f"{quantity} of {str(protocol)[:100]}"
            given = _dictionary(regressions, f"`{where}`")
            if quantity == "cpu":
                not_taken += [NotTaken(f"{where}: {str(key)[:100]}", _CPU) for key in given]
            elif protocol in [item.value for item in Protocol]:
                hops.append(_hop(Protocol(str(protocol)), given, not_taken))
            else:
                not_taken.append(NotTaken(where, "admc has no such protocol"))
    kept = [hop for hop in hops if any(part.latency is not None for part in hop.parts)]
    if not kept:
        raise PickleError("it has no latency that can be taken", 0)
    machine, system = _machine(platform)
    new_profile = Profile(
        schema_version=SCHEMA_VERSION,
        name=name,
        source="imported from a profile of MeshInsight's tool",
        platform=Platform(machine, system),
        proxy=Proxy("envoy", "not in the file"),
        method=Method(
            "mean",
            "MeshInsight's tool: one request at a time, messages of 100 to 4,000 bytes, functions timed by eBPF, one "
            "linear regression on the size for each part",
        ),
        units=UNITS,
        saturation=None,
        parts=PARTS,
        own_components=(),
        sidecar=SidecarCost(None, None, None, None, None),
        hops=tuple(sorted(kept, key=lambda hop: list(Protocol).index(hop.protocol))),
        components=(),
    )
    return Imported(new_profile, tuple(not_taken))


def _machine(platform: str) -> tuple[str, str]:
    words = [word.strip() for word in platform.split(";") if word.strip()]
    machine = [word for word in words if word.startswith("CPU:")]
    system = [word for word in words if word not in machine]
    return "; ".join(machine)[:500] or "not in the file", "; ".join(system)[:500] or "not in the file"


def _hop(protocol: Protocol, given: Mapping[object, object], not_taken: list[NotTaken]) -> HopCost:
    parts: list[Part] = []
    for key, part in _REGRESSIONS.items():
        if key not in given:
            if part != "parsing" or protocol is not Protocol.TCP:
                not_taken.append(NotTaken(f"latency of {protocol}: {key}", "it is not in the file"))
                parts.append(Part(part, None, None))
            continue
        line = _line(given[key])
        problem = _problem(line)
        if problem is not None:
            not_taken.append(NotTaken(f"latency of {protocol}: {key}", problem))
            parts.append(Part(part, None, None))
            continue
        parts.append(Part(part, Law(_curve(line.intercept), _curve(line.slope)), None))
    unknown = [str(key)[:100] for key in given if key not in _REGRESSIONS]
    not_taken += [NotTaken(f"latency of {protocol}: {key}", "the tool has no such part") for key in unknown]
    return HopCost(protocol, SIZES, None, tuple(parts))


def _problem(line: _Line) -> str | None:
    if not all(math.isfinite(number) for number in line):
        return "it is not a number (NaN) or infinite"
    if line.slope < 0:
        return f"it falls by {-line.slope:.3g} us with each byte, which no cost does"
    if line.intercept + line.slope * float(SIZES.low) < 0:
        return "it is negative for the smallest message"
    if line.intercept < 0:
        return "it is negative for an empty message"
    return "it is too large" if max(line) >= 1e15 else None


def _curve(value: float) -> tuple[Knot, ...]:
    return (Knot(None, Decimal(repr(value)).quantize(_PLACES), None),)


# ---- regressions and numpy's numbers as data ----


def _line(value: object) -> _Line:
    state = _state(value)
    coefficients = _array(state.get("coef_"))
    if len(coefficients) != 1:
        raise PickleError(f"a regression has {len(coefficients)} coefficients, and one on the size has 1", 0)
    return _Line(_scalar(state.get("intercept_")), coefficients[0])


def _state(value: object) -> Mapping[object, object]:
    if not isinstance(value, Object):
        raise PickleError("a figure is no linear regression", 0)
    made = value.of if value.of.name != "_reconstructor" else next(iter(value.arguments), None)
    if not isinstance(made, Name) or made.name != _REGRESSION or not isinstance(value.state, dict):
        raise PickleError("a figure is no linear regression", 0)
    return value.state


def _scalar(value: object) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Object) and value.of.name == "scalar" and len(value.arguments) == 2:
        numbers = _numbers(value.arguments[0], _bytes(value.arguments[1]))
        if len(numbers) == 1:
            return numbers[0]
    raise PickleError("an intercept is no number", 0)


def _array(value: object) -> list[float]:
    """Numbers of a one-dimensional array of doubles."""
    if isinstance(value, Object) and value.of.name == "_reconstruct":
        state = value.state
        if isinstance(state, tuple) and len(state) == 5:
            _version, shape, dtype, _fortran, content = state
            return _checked(_numbers(dtype, _bytes(content)), shape)
    if isinstance(value, Object) and value.of.name == "_frombuffer" and len(value.arguments) == 4:
        content, dtype, shape, _order = value.arguments
        return _checked(_numbers(dtype, _bytes(content)), shape)
    raise PickleError("coefficients are no array of numbers", 0)


def _checked(numbers: list[float], shape: object) -> list[float]:
    if shape != (len(numbers),):
        raise PickleError("an array has not the size that it claims", 0)
    return numbers


def _bytes(value: object) -> bytes:
    """Bytes; the first pickle protocols write them as a call that encodes a text."""
    if isinstance(value, Object) and value.of == Name("_codecs", "encode"):
        text, encoding = (*value.arguments, None)[:2]
        if isinstance(text, str) and encoding == "latin1":
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError as error:
                raise PickleError("bytes are written as a text with other characters", 0) from error
    if isinstance(value, bytes):
        return value
    raise PickleError("the numbers of an array are no bytes", 0)


def _numbers(dtype: object, content: bytes) -> list[float]:
    if not isinstance(dtype, Object) or dtype.of != Name("numpy", "dtype") or dtype.arguments[:1] != ("f8",):
        raise PickleError("an array has other numbers than doubles", 0)
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    if order not in ("<", ">") or len(content) % 8:
        raise PickleError("an array has other numbers than doubles", 0)
    return list(struct.unpack(f"{order}{len(content) // 8}d", content))
