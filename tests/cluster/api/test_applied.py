"""When an apply needs a request; against a real API server: test_real_requests.py."""

from __future__ import annotations

from typing import Any

import pytest

from admc.kubernetes.cluster.api.applied import Applied
from admc.kubernetes.cluster.api.errors import ApiError

Document = dict[str, Any]
PATH = "/api/v1/namespaces/a/things/b"


class _Cluster:
    """Takes what is applied, fills in a default, and counts versions."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.fails = False

    async def apply(self, path: str, body: Document, *, force: bool = True, subresource: str = "") -> Document:
        assert force
        self.requests.append(subresource)
        if self.fails:
            raise ApiError(0, "Timeout", "the answer is lost")
        version = str(8 + len(self.requests))
        return {**body, "metadata": {"resourceVersion": version}, "filled": "in"}


async def test_the_same_content_makes_no_request_in_any_order_of_fields() -> None:
    cluster = _Cluster()
    applied = Applied(cluster)
    assert await applied.apply(PATH, {"a": 1, "b": [1, 2]})
    assert not await applied.apply(PATH, {"b": [1, 2], "a": 1})
    assert await applied.apply(PATH, {"b": [2, 1], "a": 1})
    assert await applied.apply(PATH, {"a": 1}, subresource="status")
    assert not await applied.apply(PATH, {"a": 1}, subresource="status")
    assert await applied.apply(PATH + "2", {"a": 1})
    assert cluster.requests == ["", "", "status", ""]


async def test_a_change_of_the_body_by_its_owner_is_not_missed() -> None:
    applied, body = Applied(_Cluster()), {"a": {"b": 1}}
    await applied.apply(PATH, body)
    body["a"]["b"] = 2
    assert await applied.apply(PATH, body)


async def test_after_a_failure_the_next_apply_makes_a_request() -> None:
    cluster = _Cluster()
    applied = Applied(cluster)
    await applied.apply(PATH, {"a": 1})
    cluster.fails = True
    with pytest.raises(ApiError):
        await applied.apply(PATH, {"a": 2})
    cluster.fails = False
    assert await applied.apply(PATH, {"a": 1})


@pytest.mark.parametrize(
    ("version", "fields", "is_altered"),
    [
        ("9", {"a": {"b": 1}, "c": [{"d": 1}]}, False),
        ("99", {"a": {"b": 1, "more": 2}, "c": [{"d": 1}], "filled": "out"}, False),
        ("10", {"a": {"b": 2}, "c": [{"d": 1}]}, True),
        ("10", {"a": {}, "c": [{"d": 1}]}, True),
        ("10", {"a": 3, "c": [{"d": 1}]}, True),
        ("10", {"a": {"b": 1}, "c": [{"d": 1}, {"d": 2}]}, True),
        ("10", {}, True),
        ("8", {"a": {"b": 2}}, False),  # older than the answer
        ("x", {"a": {"b": 2}}, True),
    ],
)
async def test_an_object_that_was_altered_is_applied_again(version: str, fields: Document, is_altered: bool) -> None:
    applied, body = Applied(_Cluster()), {"a": {"b": 1}, "c": [{"d": 1}]}
    await applied.apply(PATH, body)
    assert applied.seen(PATH, {"metadata": {"resourceVersion": version}, **fields}) is is_altered
    assert await applied.apply(PATH, body) is is_altered


async def test_an_object_that_is_gone_is_applied_again() -> None:
    applied = Applied(_Cluster())
    assert not applied.seen(PATH, None)
    await applied.apply(PATH, {"a": 1})
    await applied.apply(PATH, {"a": 1}, subresource="status")
    assert applied.seen(PATH, None)
    assert await applied.apply(PATH, {"a": 1})
    assert not await applied.apply(PATH, {"a": 1}, subresource="status")
