"""Profiles of MeshInsight's tool are read as data: the figures are those of the file, and no file runs anything."""

from __future__ import annotations

import json
import math
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admc.cost.profile_import import meshinsight
from admc.cost.profile_import.making import imported
from admc.cost.profile_import.pickle_data import MAX_BYTES, MAX_INSTRUCTIONS, PickleError
from admc.cost.profiles.law import function, total
from admc.cost.profiles.profile import LATENCY
from dsl.program import Protocol
from tests.cli.command import Admc
from tests.cost import pickles


def taken(content: bytes, name: str = "imported") -> meshinsight.Imported:
    found = meshinsight.platforms(content)
    (platform,) = found
    return meshinsight.profile(name, platform, found[platform])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_figures_are_those_of_the_file_by_every_pickle_protocol(protocol: int) -> None:
    result = taken(pickles.profile(protocol))
    assert result.not_taken == ()
    profile = result.profile
    assert profile.platform.machine == "CPU: Test 2.6 GHz"
    assert profile.platform.system == "Kernel: 5.4; Kubernetes: v1.23; Istio: v1.13"
    for hop in profile.hops:
        expected = sum(
            Fraction(Decimal(repr(intercept))) + Fraction(Decimal(repr(slope))) * 1000
            for intercept, slope in pickles.LATENCIES[hop.protocol].values()
        )
        laws = [part.latency for part in hop.parts if part.latency is not None]
        value = total(function(LATENCY, law, hop.sizes).estimate(None, 1000).amount for law in laws).value
        assert value == pytest.approx(float(expected), rel=1e-14)


def test_parsing_is_a_part_of_an_http_hop() -> None:
    """The tool trains it and never adds it, so its own figures come out low."""
    profile = taken(pickles.profile()).profile
    assert [part.name for part in profile.hops[1].parts] == ["ipc", "read", "write", "notification", "parsing", "other"]
    assert "parsing" not in [part.name for part in profile.hops[0].parts]


def test_cpu_is_not_taken_and_the_reason_is_said() -> None:
    result = taken(pickles.profile(latency=pickles.regressions(), cpu=pickles.regressions()))
    assert len(result.not_taken) == 11
    assert all("peak rate that is not in the file" in reason for _, reason in result.not_taken)
    assert all(part.cpu is None for hop in result.profile.hops for part in hop.parts)


def _with(name: str, line: tuple[float, float]) -> bytes:
    lines = {"tcp": {**pickles.LATENCIES["tcp"], name: line}}
    return pickles.profile(latency=pickles.regressions(lines))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ((math.nan, 0.001), "NaN"),
        ((1.0, math.nan), "NaN"),
        ((math.inf, 0.001), "infinite"),
        ((50.0, -0.001), "falls"),
        ((-0.1, 0.001), "empty message"),
        ((-50.0, 0.001), "smallest message"),
        ((1e300, 0.0), "too large"),
    ],
)
def test_a_figure_that_is_no_cost_is_not_taken(line: tuple[float, float], reason: str) -> None:
    result = taken(_with("write_reg", line))
    assert [figure for figure, _ in result.not_taken] == ["latency of tcp: write_reg"]
    assert reason in result.not_taken[0].reason
    assert [part.name for part in result.profile.hops[0].parts if part.latency is None] == ["write"]


def test_other_figures_are_named() -> None:
    content = {
        "latency": {**pickles.regressions(), "mysql": pickles.regressions()["tcp"]},
        "memory": {"tcp": 5},
    }
    content["latency"]["tcp"]["disk_reg"] = pickles.LinearRegression(1.0, 0.0)
    del content["latency"]["http"]["parsing_reg"]
    result = taken(pickles.profile(**content))
    assert {figure for figure, _ in result.not_taken} == {
        "latency of mysql",
        "latency of tcp: disk_reg",
        "latency of http: parsing_reg",
        "memory",
    }


# ---- hostile files ----


def _op(name: str) -> bytes:
    return next(code.code for code in pickletools.opcodes if code.name == name).encode("latin-1")


def _text(text: str) -> bytes:
    return _op("BINUNICODE") + struct.pack("<I", len(text)) + text.encode()


class _Calls:
    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


class _Claiming:
    """An array that claims another shape than that of its numbers."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments, state = np.array([1.0]).__reduce__()
        version, _shape, *rest = state  # type: ignore[misc]
        return make, arguments, (version, self._shape, *rest)


def _claims(*shape: int) -> bytes:
    regression = pickles.LinearRegression(1.0, 2.0)
    regression.coef_ = _Claiming(*shape)
    return pickles.profile(2, latency={"tcp": {"read_reg": regression}})


def _doubling(depth: int) -> bytes:
    """Each list holds the one before twice: as a tree it has 2^depth leaves."""
    body = _op("EMPTY_LIST") + b"q\x00"
    for index in range(depth):
        body += _op("EMPTY_LIST") + b"q" + bytes([index + 1]) + b"(h" + bytes([index]) + b"h" + bytes([index]) + b"e"
    return b"\x80\x02" + body + b"."


def _key() -> bytes:
    """Two texts and one key of thousands of references to them: written out, the key has a thousand times the bytes."""
    text = "\U000e0001" * 9999
    return pickle.dumps({"one": {"latency": {(text,) * 9999: {"read_reg": 1}}}})


def _keys() -> bytes:
    """One long key that is set again and again: each time takes as long as the key is."""
    found = _text("x") + b"q\x01" + b"h\x01" * 9000
    return b"\x80\x02}(" + found + b"tq\x020" + b"h\x02Ns" * 30_000 + b"."


def _shared() -> bytes:
    """One dictionary of many entries under each of many keys of another one: a product of their sizes."""
    inner = {f"{index}_reg": 1 for index in range(3000)}
    return pickles.profile(latency=dict.fromkeys([f"p{index}" for index in range(3000)], inner))


def _itself() -> bytes:
    found: dict[str, object] = {}
    found["latency"] = found
    return pickle.dumps(found)


MARKER = "admc-was-run"

HOSTILE: dict[str, Callable[[], bytes]] = {
    "a call": lambda: pickle.dumps(_Calls(os.mkdir, MARKER)),
    "a call by the first protocol": lambda: pickle.dumps(_Calls(os.mkdir, MARKER), protocol=0),
    "a call of eval": lambda: pickle.dumps(_Calls(eval, f"__import__('os').mkdir('{MARKER}')")),
    "an import": lambda: b"cantigravity\nfly_distance\n.",
    "an import by the stack": lambda: b"\x80\x04" + _text("os") + _text("system") + _op("STACK_GLOBAL") + b".",
    "a name put together from allowed ones": lambda: (
        b"\x80\x04" + _text("numpy") + _text("load") + _op("STACK_GLOBAL") + b"."
    ),
    "an instance": lambda: b"(S'x'\nios\nsystem\n.",
    "an object": lambda: b"(cos\nsystem\nS'x'\no.",
    "an object with keywords": lambda: b"\x80\x04cnumpy\nndarray\n)}\x92.",
    "a persistent id": lambda: b"Px\n.",
    "a registered extension": lambda: b"\x80\x02\x82\x01.",
    "a call of what a call returned": lambda: b"\x80\x02cnumpy\ndtype\n)R)R.",
    "a call of a text": lambda: b"\x80\x02" + _text("os.system") + b")R.",
    "a state for a class": lambda: b"\x80\x02cnumpy\nndarray\n}b.",
    "a second state": lambda: b"\x80\x02cnumpy\ndtype\n)R}b}b.",
    "a giant array": lambda: _claims(10**12),
    "an array of many dimensions": lambda: _claims(*[1] * 1000),
    "an array of no numbers": lambda: _claims(0),
    "a giant text": lambda: b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x",
    "giant bytes": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "a giant number": lambda: b"\x80\x02\x8b" + struct.pack("<i", 1_000_000) + b"\x7f" * 1_000_000 + b".",
    "a giant number as digits": lambda: b"I" + b"9" * 100_000 + b"\n.",
    "a giant place in the memo": lambda: b"\x80\x02]r\xff\xff\xff\xff.",
    "a memo bomb": lambda: _doubling(200),
    "a product of shared dictionaries": _shared,
    "a dictionary in itself": _itself,
    "many instructions": lambda: b"\x80\x02" + b"]0" * MAX_INSTRUCTIONS + b"N.",
    "deep nesting": lambda: b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "many marks": lambda: b"\x80\x02" + b"(" * 50_000 + b".",
    "a key that is no text": lambda: pickle.dumps({1: {}}),
    "a key of many texts": lambda: pickle.dumps({("x" * 9999,) * 9999: {}}),
    "a key that is small in the file": _key,
    "a long key many times": _keys,
    "a place in the memo that is a truth value": lambda: b"]p00\n.",
    "a value by a truth value": lambda: b"]p0\ng00\n.",
    "a value that the memo lacks": lambda: b"\x80\x02h\x05.",
    "values that belong to nothing": lambda: b"\x80\x02NN.",
    "no value": lambda: b"\x80\x02.",
    "no end": lambda: b"\x80\x02N",
    "an empty file": lambda: b"",
    "text": lambda: b"{'latency': {}}",
    "a newer protocol's buffers": lambda: b"\x80\x05\x97.",
    "a set": lambda: pickle.dumps({"a"}),
    "too many bytes": lambda: b"\x80\x02" + b"N0" * (MAX_BYTES // 2) + b"N.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_does_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admc: Admc
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "profile.pkl"
    path.write_bytes(HOSTILE[name]())
    tracemalloc.start()
    begun = time.process_time()
    run = admc("profile", "import", path)
    seconds = time.process_time() - begun
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.code == 1
    assert run.err.startswith("error[ADM868]") or (name == "too many bytes" and "ADM802" in run.err)
    assert "Traceback" not in run.err
    assert [item.name for item in tmp_path.iterdir()] == ["profile.pkl"]
    assert seconds < 10
    assert most < 100_000_000


def test_the_first_file_would_have_done_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above could not fail."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(HOSTILE["a call"]())  # noqa: S301
    assert (tmp_path / MARKER).is_dir()


def test_no_module_is_imported() -> None:
    content = pickles.profile()
    probe = (
        "import sys; from admc.cost.profile_import import meshinsight; "
        f"meshinsight.platforms({content!r}); "
        "bad = {'numpy', 'sklearn'} & set(sys.modules); "
        "sys.exit(f'loaded {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("at", range(0, 600, 7))
def test_a_file_that_is_cut_short_is_refused(at: int) -> None:
    content = pickles.profile(latency=pickles.regressions({"tcp": {"read_reg": (1.0, 2.0)}}))
    with pytest.raises(PickleError):
        taken(content[: min(at, len(content) - 1)])


@pytest.mark.parametrize("seed", range(150))
def test_a_file_with_a_changed_byte_gives_a_profile_or_an_error(seed: int) -> None:
    content = bytearray(pickles.profile(2 + seed % 3, latency=pickles.regressions({"tcp": {"read_reg": (1.0, 2.0)}})))
    content[(seed * 7919) % len(content)] ^= 1 << (seed % 8)
    try:
        result = taken(bytes(content))
    except PickleError:
        return
    assert result.profile.hops


# ---- the command ----


def test_the_command_writes_a_profile_that_validates(admc: Admc, tmp_path: Path) -> None:
    path, output = tmp_path / "profile.pkl", tmp_path / "node.json"
    path.write_bytes(pickles.profile(latency=pickles.regressions(), cpu=pickles.regressions()))
    run = admc("profile", "import", path, "--name", "lab", "-o", output)
    assert run.code == 0
    assert "tcp, http; 0 components" in run.out
    assert run.out.count("not taken: cpu of") == 11
    assert admc("profile", "validate", output).code == 0
    run = admc("profile", "import", path, "--name", "lab")
    assert run.out == output.read_text()
    assert run.err.count("not taken: cpu of") == 11
    document = json.loads(admc("profile", "import", path, "--name", "lab", "--format", "json").out)
    assert document["profile"] == json.loads(output.read_text())
    assert len(document["notes"]) == 11
    assert admc("profile", "show", output).code == 0


def test_one_of_several_platforms(admc: Admc, tmp_path: Path) -> None:
    path = tmp_path / "profile.pkl"
    path.write_bytes(pickles.dumped({("CPU: one",): {"latency": pickles.regressions()}, ("CPU: two",): {}}))
    run = admc("profile", "import", path)
    assert run.code == 1
    path.write_bytes(
        pickles.dumped({(f"CPU: {name}",): {"latency": pickles.regressions()} for name in ("one", "two", "three")})
    )
    run = admc("profile", "import", path)
    assert run.code == 1
    assert "3 platforms" in run.err
    assert json.loads(admc("profile", "import", path, "--platform", "two").out)["platform"]["machine"] == "CPU: two"
    assert "no platform" in admc("profile", "import", path, "--platform", "four").err


def test_hop_order() -> None:
    assert [hop.protocol for hop in taken(pickles.profile()).profile.hops] == [Protocol.TCP, Protocol.HTTP]


def test_an_imported_profile_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "profile.pkl"
    path.write_bytes(pickles.profile())
    assert imported(path, "lab", None).profile == taken(pickles.profile(), "lab").profile
