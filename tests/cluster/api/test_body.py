"""Pieces of an answer become lines and JSON, whatever their boundaries, and within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.api.body import TooLargeError, lines, parse, start, whole
from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable


async def _chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(st.lists(st.binary(min_size=1, max_size=5).map(lambda line: line.replace(b"\n", b"x"))), st.data())
async def test_lines_do_not_depend_on_the_pieces(found: list[bytes], data: st.DataObject) -> None:
    content = b"".join(line + b"\n" for line in found)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)))))
    parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    wanted = [line for line in found if line.strip()]
    assert [line async for line in lines(_chunks(parts))] == wanted


async def test_the_start_of_a_line_is_no_line() -> None:
    found = lines(_chunks([b'{"a":1}\n{"b"']))
    assert await anext(found) == b'{"a":1}'
    with pytest.raises(ApiError, match="within a line"):
        await anext(found)


@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 6] * 2, [b"x" * 11 + b"\n"], [b"\nx", b"x" * 10, b"\n"]])
async def test_a_line_has_a_bound(parts: list[bytes]) -> None:
    with pytest.raises(TooLargeError, match="more than 10 bytes"):
        [line async for line in lines(_chunks(parts), 10)]


async def test_a_line_of_the_bound_is_read() -> None:
    assert [line async for line in lines(_chunks([b"x" * 10, b"\n"]), 10)] == [b"x" * 10]


async def test_an_answer_has_a_bound() -> None:
    assert await whole(_chunks([b"ab", b"c"]), 3) == b"abc"
    with pytest.raises(TooLargeError):
        await whole(_chunks([b"ab", b"cd"]), 3)
    assert await start(_chunks([b"ab", b"cd"]), 3) == b"abc"


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 9999])
def test_what_is_no_json_object_is_an_error(content: bytes) -> None:
    with pytest.raises(ApiError, match="no JSON") as error:
        parse(content, 200)
    assert error.value.status == 200
    assert len(str(error.value)) < 800
