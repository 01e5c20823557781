"""Clients may say anything: a stream ends with an error that says why, or goes on, and never in any other way."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.xds_server.transcript import world
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.stream import MAX_TYPES
from xds_server.protocol.wire import DeltaRequest, ProtocolError, TooMuchError, parse_delta, parse_sotw
from xds_server.resources.types import ORDER

WORLDS = [
    world("clusters a=1 b=1-; endpoints a=1; listeners l=1>r; routes r=1>a; secrets k=1; extensions f=1"),
    world("clusters b=2; listeners l=2>s m=1>r; routes r=1>b s=1>b"),
    world(""),
]
NAMES = st.lists(st.sampled_from(["a", "b", "l", "m", "r", "s", "k", "f", "*", "", "x"]), max_size=4)
TYPES = st.sampled_from([*ORDER, "type.googleapis.com/no.such.Type", ""])
NONCES = st.sampled_from(["", "0", "1", "2", "3", "4", "no"])
ERRORS = st.sampled_from([None, None, "", "no"])


@st.composite
def said(draw: st.DrawFn, variant: str) -> bytes:
    request: Any
    if variant == "sotw":
        request = discovery_pb2.DiscoveryRequest(version_info=draw(NONCES), resource_names=draw(NAMES))
    else:
        request = discovery_pb2.DeltaDiscoveryRequest(
            resource_names_subscribe=draw(NAMES),
            resource_names_unsubscribe=draw(NAMES),
            initial_resource_versions=dict.fromkeys(draw(NAMES), "1"),
        )
    request.type_url, request.response_nonce, error = draw(TYPES), draw(NONCES), draw(ERRORS)
    if error is not None:
        request.error_detail.message = error
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@examples(100)
@given(data=st.data())
def test_any_requests_in_any_order(variant: str, data: st.DataObject) -> None:
    parse, kind = (parse_sotw, SotwStream) if variant == "sotw" else (parse_delta, DeltaStream)
    stream: Any = kind(WORLDS[0], SharedResults())
    for step in data.draw(st.lists(st.one_of(said(variant), st.integers(0, 3)), max_size=15)):
        responses = []
        if isinstance(step, bytes):
            with contextlib.suppress(ProtocolError):
                responses = stream.receive(parse(step))
        elif step < len(WORLDS):
            responses = stream.publish(WORLDS[step])
        else:
            responses = stream.end_wait()
        for response in responses:
            message = discovery_pb2.DiscoveryResponse if variant == "sotw" else discovery_pb2.DeltaDiscoveryResponse
            parsed = message.FromString(response.data)
            assert (parsed.type_url, parsed.nonce) == (response.type_url, response.nonce)
        assert len(stream.status()) <= MAX_TYPES


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for parse in (parse_sotw, parse_delta):
        with contextlib.suppress(ProtocolError):
            parse(data)


def test_types_on_one_stream_are_limited() -> None:
    stream = DeltaStream(WORLDS[0], SharedResults())
    for number in range(MAX_TYPES):
        stream.receive(DeltaRequest(f"type.googleapis.com/no.such.Type{number}"))
    with pytest.raises(TooMuchError, match="more than 32 types on one stream"):
        stream.receive(DeltaRequest("type.googleapis.com/one.too.Many"))


def test_names_are_limited_in_length() -> None:
    request = discovery_pb2.DiscoveryRequest(type_url=ORDER[2], resource_names=["x" * 1025])
    with pytest.raises(TooMuchError, match="a name of more than 1,024 characters"):
        parse_sotw(request.SerializeToString())


def test_an_error_without_end_is_cut() -> None:
    stream = DeltaStream(WORLDS[0], SharedResults())
    (response,) = stream.receive(DeltaRequest(ORDER[1]))
    stream.receive(DeltaRequest(ORDER[1], nonce=response.nonce, error="x" * 1_000_000))
    assert len(stream.status()[0].error) == 4096
