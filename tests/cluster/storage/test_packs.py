"""Objects come out of packs as they went in; whatever else is there is refused, and never unpacked beyond its bound."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.storage.packs import MAX_PART, Pack, digest_of, packed, unpacked
from admc.kubernetes.cluster.storage.record import Index, index_from_json, index_to_json
from admc.serve.storage.manifest import ManifestError


def by_digest(*contents: bytes) -> dict[str, bytes]:
    return {digest_of(content): content for content in contents}


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_objects_come_back_and_the_bytes_are_a_function_of_them(contents: list[bytes]) -> None:
    objects = by_digest(*contents)
    pack, parts = packed(objects)
    assert unpacked(pack, [parts[part] for part in pack.parts]) == objects
    assert packed(dict(reversed(objects.items()))) == (pack, parts)


def test_a_large_object_lies_in_several_parts() -> None:
    noise = b"".join(bytes.fromhex(digest_of(str(number).encode())) for number in range(60_000))
    pack, parts = packed(by_digest(noise))
    assert len(parts) == len(noise) // MAX_PART + 1 == 4
    assert all(len(part) <= MAX_PART and digest_of(part) == name for name, part in parts.items())
    assert unpacked(pack, [parts[part] for part in pack.parts]) == by_digest(noise)


def test_a_bomb_is_unpacked_up_to_its_stated_length_only() -> None:
    bomb = gzip.compress(bytes(200_000_000), 9)
    with pytest.raises(ManifestError, match="larger than it says"):
        unpacked(Pack(1000, ("x",)), [bomb])


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


NONE = {
    "no gzip": (b"no gzip", "cannot be unpacked"),
    "cut short": (zipped(b"x" * 100)[:-9], "cut short"),
    "more behind it": (zipped(b"x" * 100) + b"more", "larger than it says"),
    "shorter": (zipped(b"x" * 50), "cut short"),
    "no line": (zipped(b"x" * 100), "does not say what it has"),
    "rows of three": (zipped(b"[[1, 2, 3]]\n" + bytes(88)), "does not say what it has"),
    "no length": (zipped(b'[["a", "b"]]\n' + bytes(87)), "does not say what it has"),
    "no JSON": (zipped(b"[" * 99 + b"\n"), "does not say what it has"),
    "a number": (zipped(b"7" + b" " * 98 + b"\n"), "does not say what it has"),
}


@pytest.mark.parametrize(("content", "words"), NONE.values(), ids=NONE)
def test_a_pack_that_is_none_is_refused_with_the_reason(content: bytes, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        unpacked(Pack(100, ("x",)), [content])


def test_an_object_that_was_changed_is_left_out_alone() -> None:
    objects = by_digest(b"one", b"two")
    pack, parts = packed(objects)
    whole = gzip.decompress(b"".join(parts[part] for part in pack.parts)).replace(b"two", b"too")
    assert unpacked(pack, [gzip.compress(whole)]) == by_digest(b"one")


@pytest.mark.parametrize("length", [-3, 10**12])
def test_lengths_outside_the_pack_give_nothing_wrong(length: int) -> None:
    content = json.dumps([[digest_of(b"abc"), length]]).encode() + b"\nabc"
    assert unpacked(Pack(len(content), ("x",)), [gzip.compress(content)]) in ({}, by_digest(b"abc"))


INDEX = Index(1, digest_of(b"m"), (Pack(10, (digest_of(b"p"),)),))


def test_the_index_comes_back() -> None:
    assert index_from_json(index_to_json(INDEX)) == INDEX


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"schema_version": None}, "no `schema_version`"),
        ({"more": 1}, "unknown field"),
        ({"manifest": "../x"}, "not named by a digest"),
        ({"packs": [{"length": 1, "parts": ["x"]}]}, "not named by a digest"),
        ({"packs": [{"length": 2**40, "parts": []}]}, "more than 512 MB"),
        ({"packs": [{"length": 1, "parts": [digest_of(b"p")] * 300}]}, "more than 256 parts"),
    ],
)
def test_an_index_that_is_none_is_refused_with_the_reason(change: dict[str, object], words: str) -> None:
    document = {**json.loads(index_to_json(INDEX)), **change}
    with pytest.raises(ManifestError, match=words):
        index_from_json(json.dumps(document).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 200_000, b"[" * 300_000])
def test_an_index_that_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(ManifestError):
        index_from_json(content)
