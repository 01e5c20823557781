"""The echo services and the clients speak to each other directly: later, what differs is a proxy's doing."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from admc.testbed import echo
from admc.testbed.client import Request, Target, grpc_call, h2c, http1, tcp
from admc.testbed.echo import EchoServices, Endpoint, TakenError

if TYPE_CHECKING:
    from collections.abc import Iterator


BLOCK = 100 + os.getpid() % 150  # so that test runs side by side do not meet


@pytest.fixture(scope="module")
def services() -> Iterator[EchoServices]:
    endpoints = [
        Endpoint("web", 80, "http", f"127.0.{BLOCK}.1", 18080),
        Endpoint("api", 9000, "grpc", f"127.0.{BLOCK}.2", 19000),
        Endpoint("db", 5432, "tcp", f"127.0.{BLOCK}.3", 15432),
    ]
    with EchoServices(endpoints) as running:
        yield running


def target(services: EchoServices, name: str) -> Target:
    endpoint = next(each for each in services.endpoints if each.service == name)
    return Target(f"127.0.{BLOCK}.9", endpoint.address, endpoint.listen, f"{name}:{endpoint.port}")


@pytest.mark.parametrize(("call", "protocol"), [(http1, "http/1.1"), (h2c, "h2c")])
def test_an_http_service_reports_what_reached_it(services: EchoServices, call: object, protocol: str) -> None:
    assert callable(call)
    reply = call(
        target(services, "web"), Request("POST", "/a?b=c", (("X-Tier", "gold"), (echo.ID, protocol)), b"hello")
    )
    assert reply.ok
    seen = reply.seen
    assert seen is not None
    assert (seen.service, seen.port, seen.protocol, seen.method, seen.path) == ("web", 80, protocol, "POST", "/a?b=c")
    assert (seen.header("x-tier"), seen.header("host"), seen.peer, seen.body) == (
        ("gold",),
        ("web:80",),
        f"127.0.{BLOCK}.9",
        5,
    )
    assert services.record.of(protocol) == (seen,)


@pytest.mark.parametrize("call", [http1, h2c])
def test_an_http_answer_is_what_was_asked_for(services: EchoServices, call: object) -> None:
    assert callable(call)
    asked = ((echo.STATUS, "503"), (echo.DELAY, "0.2"), (echo.HEADER, "x-build=7"), (echo.BODY, "200000"))
    reply = call(target(services, "web"), Request(headers=asked))
    assert reply.status == 503
    assert reply.seconds >= 0.2
    assert reply.header("x-build") == ("7",)
    assert len(reply.body) > 200_000


@pytest.mark.parametrize(
    ("call", "failure", "shown"),
    [
        (http1, "reset", "connection closed"),
        (http1, "garble", "NO HTTP"),
        (h2c, "reset", "connection closed"),
        (h2c, "refuse", "stream reset"),
        (h2c, "garble", ""),
    ],
)
def test_an_http_service_fails_as_it_is_asked_to(
    services: EchoServices, call: object, failure: str, shown: str
) -> None:
    assert callable(call)
    asked = ((echo.FAIL, f"{failure},"), (echo.ID, f"{call.__name__}-{failure}"))
    reply = call(target(services, "web"), Request(headers=asked))
    assert reply.status is None
    assert shown in reply.error
    assert call(target(services, "web"), Request(headers=asked)).ok, "the second arrival is asked for no failure"
    assert call(target(services, "web"), Request(headers=((echo.FAIL, "otherwise"),))).ok


def test_a_large_request_over_http2_arrives_whole(services: EchoServices) -> None:
    reply = h2c(target(services, "web"), Request("POST", "/", (), b"x" * 300_000))
    assert reply.seen is not None
    assert reply.seen.body == 300_000


def test_a_grpc_service_answers_any_method(services: EchoServices) -> None:
    reply = grpc_call(
        target(services, "api"), Request(path="/shop.Cart/Add", headers=(("x-tier", "gold"),), body=b"abc")
    )
    assert reply.ok
    seen = reply.seen
    assert seen is not None
    assert (seen.path, seen.header("x-tier"), seen.peer, seen.body) == (
        "/shop.Cart/Add",
        ("gold",),
        f"127.0.{BLOCK}.9",
        3,
    )


def test_a_grpc_answer_is_what_was_asked_for(services: EchoServices) -> None:
    asked = ((echo.STATUS, "14"), (echo.HEADER, "x-build=7"))
    reply = grpc_call(target(services, "api"), Request(path="/a.B/C", headers=asked))
    assert reply.label == "UNAVAILABLE"
    assert reply.header("x-build") == ("7",)


def test_a_tcp_service_greets_and_echoes(services: EchoServices) -> None:
    reply = tcp(target(services, "db"))
    assert reply.ok
    assert reply.seen is not None
    assert (reply.seen.service, reply.seen.peer) == ("db", f"127.0.{BLOCK}.9")


def test_a_refused_connection_is_labelled() -> None:
    assert tcp(Target(f"127.0.{BLOCK}.9", f"127.0.{BLOCK}.8", 15433, "x")).label == "connection refused"
    assert (
        grpc_call(Target(f"127.0.{BLOCK}.9", f"127.0.{BLOCK}.8", 15433, "x"), Request()).label == "connection refused"
    )


@pytest.mark.parametrize("protocol", ["http", "grpc", "tcp"])
def test_a_taken_port_is_named(protocol: str) -> None:
    with (
        socket.create_server((f"127.0.{BLOCK}.5", 18099)),
        pytest.raises(TakenError, match=r"`web` cannot listen on [0-9.]+"),
    ):
        EchoServices([Endpoint("web", 80, protocol, f"127.0.{BLOCK}.5", 18099)]).__enter__()
