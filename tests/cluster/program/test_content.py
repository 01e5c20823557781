"""The files of a program from ConfigMaps: whole or not at all, each with its digest, and within a bound."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tracemalloc
from typing import Any

import pytest

from admc.kubernetes.cluster.packing import PackedError, packed, unpacked
from admc.kubernetes.cluster.program import content as module
from admc.kubernetes.cluster.program.content import Reading
from admc.kubernetes.cluster.program.spec import ConfigMapFile, ProgramSpec, read_spec

MAIN, KINDS = b"app shop\n", b"kind x for http\n"


def assemble(wanted: ProgramSpec, maps: Any) -> Reading:
    return module.assemble(wanted, maps, "admc")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def config_map(data: Any = None, **binary: bytes) -> dict[str, Any]:
    return {
        "data": data or {},
        "binaryData": {name.replace("_", "."): base64.b64encode(content).decode() for name, content in binary.items()},
    }


def spec(*maps: ConfigMapFile, main: str = "policies.adm") -> ProgramSpec:
    listed = [{name: value for name, value in each._asdict().items() if value is not None} for each in maps]
    found, findings = read_spec({"controller": "main", "main": main, "configMaps": listed})
    assert found is not None, findings
    return found


def codes(reading: Reading) -> list[str]:
    assert reading.content is None
    return [item.code for item in reading.findings]


def test_files_of_the_spec_are_the_content() -> None:
    files = {"policies.adm": "app shop\n", "kinds/own.adm": "kind x for http\n"}
    found, _ = read_spec({"controller": "main", "files": files})
    assert found is not None
    content = assemble(found, {}).content
    assert content is not None
    assert (content.main, content.files) == ("policies.adm", {"policies.adm": MAIN, "kinds/own.adm": KINDS})


def test_the_same_files_have_the_same_digest_wherever_they_are() -> None:
    one, _ = read_spec({"controller": "main", "files": {"policies.adm": "app shop\n", "own.adm": "kind x for http\n"}})
    assert one is not None
    two = spec(
        ConfigMapFile("a", "own.adm", sha256(KINDS)),
        ConfigMapFile("b", None, sha256(MAIN)),
    )
    maps = {
        "a": config_map({"own.adm": KINDS.decode(), "x": "y"}),
        "b": config_map(policies_adm_gz=gzip.compress(MAIN)),
    }
    first, second = assemble(one, {}).content, assemble(two, maps).content
    assert first is not None
    assert first == second
    other = assemble(one, {}).content
    assert other is not None
    assert other.digest == first.digest
    changed, _ = read_spec({"controller": "main", "files": {"policies.adm": "app shop\n", "own.adm": "kind y"}})
    assert changed is not None
    third = assemble(changed, {}).content
    assert third is not None
    assert third.digest != first.digest


def test_a_reviewed_plan_beside_the_main_file_is_served() -> None:
    for main, plan in (("policies.adm", "policies.plan.json"), ("a/shop.adm", "a/shop.plan.json")):
        found, _ = read_spec({"controller": "main", "main": main, "files": {main: "", plan: "{}"}})
        assert found is not None
        content = assemble(found, {}).content
        assert content is not None
        assert content.main == plan.rpartition("/")[2]  # its folder is the program's
        assert content.main in content.files


def test_text_is_not_unpacked_whatever_its_name() -> None:
    wanted = spec(ConfigMapFile("a", "policies.adm", sha256(MAIN)), ConfigMapFile("a", "x.gz", sha256(b"text")))
    content = assemble(wanted, {"a": config_map({"policies.adm": MAIN.decode(), "x.gz": "text"})}).content
    assert content is not None
    assert content.files["x.gz"] == b"text"


def test_bytes_that_are_not_packed_are_taken_as_they_are() -> None:
    wasm = bytes(range(256))
    wanted = spec(ConfigMapFile("a", "policies.adm", sha256(MAIN)), ConfigMapFile("a", "own.wasm", sha256(wasm)))
    content = assemble(wanted, {"a": config_map({"policies.adm": MAIN.decode()}, own_wasm=wasm)}).content
    assert content is not None
    assert content.files["own.wasm"] == wasm


@pytest.mark.parametrize(
    ("there", "key", "code", "message"),
    [
        (None, None, "ADM932", "there is no ConfigMap `a` in the namespace `admc`"),
        (config_map({"other.adm": ""}), "policies.adm", "ADM932", "has no key `policies.adm`"),
        (config_map(), None, "ADM932", "has 0 keys"),
        (config_map({"a": "", "b": ""}), None, "ADM932", "has 2 keys"),
        (config_map({"policies.adm": "app shop"}), None, "ADM931", f"`{sha256(b'app shop')[:12]}...`"),
        (config_map(policies_adm_gz=MAIN), None, "ADM931", "`policies.adm.gz` of the ConfigMap `a`"),
        (config_map(policies_adm_gz=gzip.compress(MAIN)[:-4]), None, "ADM931", "cannot be unpacked"),
        (config_map(policies_adm_gz=gzip.compress(MAIN) * 2), None, "ADM931", "cannot be unpacked"),
        ({"binaryData": {"policies.adm.gz": "%"}}, None, "ADM931", "cannot be unpacked"),
        (config_map(other_adm_gz=gzip.compress(MAIN)), None, "ADM930", "main file `policies.adm`"),
    ],
)
def test_what_is_missing_or_wrong_is_named(there: Any, key: str | None, code: str, message: str) -> None:
    reading = assemble(spec(ConfigMapFile("a", key, sha256(MAIN))), {"a": there})
    assert codes(reading) == [code]
    assert message in reading.findings[0].message
    assert reading.waits == (code != "ADM930")


def test_nothing_of_a_program_is_taken_while_one_file_is_wrong() -> None:
    wanted = spec(ConfigMapFile("a", None, sha256(MAIN)), ConfigMapFile("b", None, sha256(KINDS)))
    right = {"a": config_map({"policies.adm": MAIN.decode()})}
    assert codes(assemble(wanted, {**right, "b": config_map({"own.adm": "kind y"})})) == ["ADM931"]
    assert codes(assemble(wanted, {**right, "b": None})) == ["ADM932"]
    assert assemble(wanted, {**right, "b": config_map({"own.adm": KINDS.decode()})}).content is not None


def test_one_file_twice_is_refused() -> None:
    maps = {"a": config_map({"policies.adm": MAIN.decode()}), "b": config_map(policies_adm_gz=gzip.compress(MAIN))}
    wanted = spec(ConfigMapFile("a", None, sha256(MAIN)), ConfigMapFile("b", None, sha256(MAIN)))
    assert codes(assemble(wanted, maps)) == ["ADM930"]


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("admc.kubernetes.cluster.program.content.MAX_BYTES", 1_000_000)
    return 1_000_000


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(small_bound: int) -> None:
    bomb = gzip.compress(bytes(50 * small_bound))
    assert len(bomb) < 100_000
    maps = {"a": config_map(policies_adm_gz=bomb)}
    tracemalloc.start()
    reading = assemble(spec(ConfigMapFile("a", None, "0" * 64)), maps)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert codes(reading) == ["ADM933"]
    assert "more than 1 MB" in reading.findings[0].message
    assert most < 4 * small_bound


def test_one_bomb_is_unpacked_and_the_next_ones_are_not(small_bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacks: list[int] = []

    def counted(content: bytes, limit: int) -> bytes:
        unpacks.append(limit)
        return unpacked(content, limit)

    monkeypatch.setattr(module, "unpacked", counted)
    maps = {name: config_map(policies_adm_gz=gzip.compress(bytes(2 * small_bound))) for name in "abc"}
    (item,) = assemble(spec(*(ConfigMapFile(name, None, "0" * 64) for name in "abc")), maps).findings
    assert item.message == "the program has more than 1 MB, at `policies.adm.gz` of the ConfigMap `a`"
    assert len(unpacks) == 1


def test_the_bound_is_of_all_files_together(small_bound: int) -> None:
    half = bytes(small_bound // 2 + 1)
    one = config_map(policies_adm_gz=gzip.compress(half))
    wanted = [ConfigMapFile("a", None, sha256(half)), ConfigMapFile("b", None, sha256(half))]
    other = config_map(own_adm_gz=gzip.compress(half))
    assert assemble(spec(wanted[0]), {"a": one}).content is not None
    reading = assemble(spec(*wanted), {"a": one, "b": other})
    assert codes(reading) == ["ADM933"]
    assert reading.waits, "a smaller ConfigMap corrects it"


def test_the_bound_holds_for_files_of_the_spec_as_well(small_bound: int) -> None:
    for size, codes_ in ((small_bound, []), (small_bound + 1, ["ADM933"])):
        found, _ = read_spec({"controller": "main", "files": {"policies.adm": " " * size}})
        assert found is not None
        reading = assemble(found, {})
        assert [item.code for item in reading.findings] == codes_
        assert (reading.content is None) == bool(codes_)
        assert not reading.waits, "only another spec corrects it"


def test_the_bound_holds_for_files_that_are_not_packed(small_bound: int) -> None:
    for size, code in ((small_bound, []), (small_bound + 1, ["ADM933"])):
        text = " " * size
        wanted = spec(ConfigMapFile("a", None, sha256(text.encode())))
        found = assemble(wanted, {"a": config_map({"policies.adm": text})})
        assert [item.code for item in found.findings] == code


def test_packing_gives_the_same_bytes_each_time_and_its_bound_is_exact() -> None:
    assert packed(MAIN) == packed(MAIN)
    assert unpacked(packed(MAIN), len(MAIN)) == MAIN
    assert unpacked(packed(b""), 0) == b""
    with pytest.raises(PackedError) as error:
        unpacked(packed(MAIN), len(MAIN) - 1)
    assert error.value.too_large
