"""The application and the generator, on loopback; and one short window in namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import dsl
from admc.cost.measurement.programs import APP
from admc.testbed.client import Request, Target, grpc_call
from solver.place import place
from tests.bench.cost.arm import Load, Subject, read_outcomes, run
from tests.bench.cost.suite import HOTEL
from tests.golang import built
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import NEEDS_MESH
from tests.testbed.ports import free_port

Serve = Callable[..., subprocess.Popen[bytes]]
SECONDS = 30.0


@pytest.fixture(scope="module")
def app() -> Path:
    return built(APP, "app")


@pytest.fixture
def serve(app: Path, tmp_path: Path) -> Iterator[Serve]:
    """Starts a service and waits until it listens."""
    with ExitStack() as stack:

        def start(port: int, protocol: str, **routes: dict[str, Any]) -> subprocess.Popen[bytes]:
            config = tmp_path / f"{port}.json"
            content = {
                "listen": [{"port": port, "protocol": protocol}],
                "routes": {f"/{k}": v for k, v in routes.items()},
            }
            config.write_text(json.dumps(content))
            process = subprocess.Popen([app, "serve", config], stdout=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            assert process.stdout.readline() == b"ready\n"
            return process

        yield start


def _step(protocol: str, port: int, path: str = "", every: int = 1) -> dict[str, Any]:
    address = f"127.0.0.1:{port}"
    return {"protocol": protocol, "address": address, "authority": address, "path": path, "size": 300, "every": every}


class _Sending:
    """A generator that has been started."""

    def __init__(self, app: Path, folder: Path, port: int, planned: list[tuple[int, str]]) -> None:
        config, lines = folder / "load.json", folder / "schedule"
        config.write_text(json.dumps({"address": f"127.0.0.1:{port}", "authority": "entry", "marker": "date"}))
        lines.write_text("".join(f"{after} {path} premium\n" for after, path in planned))
        self.out = folder / "outcomes"
        self.begin = time.time() + 1.0
        command = [str(each) for each in (app, "load", config, lines, round(self.begin * 1e9), self.out)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def outcomes(self) -> list[Any]:
        _, errors = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0, errors
        return list(read_outcomes(self.out.read_text()))


def test_a_request_walks_through_all_protocols_and_says_where_it_broke(app: Path, serve: Serve, tmp_path: Path) -> None:
    store, inner, plain, entry, unused = (free_port() for _ in range(5))
    serve(store, "tcp")
    serve(inner, "grpc", get={"reply": 10, "steps": [_step("tcp", store)]})
    serve(plain, "http", get={"reply": 10, "steps": [_step("grpc", inner, "/get")]})
    routes = {
        "all": {"reply": 350, "steps": [_step("http", plain, "/get"), _step("grpc", inner, "/get")]},
        "second": {"reply": 1, "steps": [_step("tcp", unused, every=2)]},
        "wrong": {"reply": 1, "steps": [_step("grpc", inner, "/unknown")]},
    }
    serve(entry, "http", **routes)
    paths = ["/all"] * 20 + ["/second", "/wrong", "/missing"]
    sending = _Sending(app, tmp_path, entry, [(index * 20_000, path) for index, path in enumerate(paths)])
    outcomes = sending.outcomes()
    assert [outcome.status for outcome in outcomes] == [
        *["200"] * 21,
        f"502: 127.0.0.1:{inner}/unknown: gRPC status `12`, HTTP status 200",
        "404: 404 page not found",
    ]
    assert all(outcome.marked for outcome in outcomes)  # Go's server dates every answer
    assert all(0 <= outcome.late <= outcome.took for outcome in outcomes)
    target = Target("127.0.0.1", "127.0.0.1", inner, "inner")
    assert grpc_call(target, Request(path="/get")).label == "OK"
    assert grpc_call(target, Request(path="/unknown")).label == "UNIMPLEMENTED"


@pytest.mark.long
def test_a_stall_neither_thins_the_load_out_nor_hides(app: Path, serve: Serve, tmp_path: Path) -> None:
    entry = free_port()
    process = serve(entry, "http", get={"reply": 1, "steps": []})
    os.kill(process.pid, signal.SIGSTOP)
    planned = [(index * 10_000, "/get") for index in range(100)]
    sending = _Sending(app, tmp_path, entry, planned)
    while time.time() < sending.begin + 1.5:
        time.sleep(0.01)
    goes_on = time.time()
    os.kill(process.pid, signal.SIGCONT)
    outcomes = sending.outcomes()
    assert [outcome.status for outcome in outcomes] == ["200"] * 100
    intended = [sending.begin + after / 1e6 for after, _ in planned]
    assert all(at + outcome.took / 1e9 >= goes_on for at, outcome in zip(intended, outcomes, strict=True))
    # A generator that waits for answers would have sent one by then.
    assert sum(at + outcome.late / 1e9 < goes_on for at, outcome in zip(intended, outcomes, strict=True)) > 50


def test_unused_to_answer_is_counted(app: Path, tmp_path: Path) -> None:
    outcomes = _Sending(app, tmp_path, free_port(), [(0, "/"), (1000, "/")]).outcomes()
    assert len(outcomes) == 2
    assert all("connection refused" in outcome.status for outcome in outcomes)


@pytest.mark.long
@NEEDS_MESH
def test_a_short_window_of_the_compiled_mesh(app: Path, tmp_path: Path) -> None:
    program = dsl.load(HOTEL)
    subject = Subject(program, place(program), Mode.COMPILED, frozenset())
    window = run(subject, app, Load(20, 0.5, 1), tmp_path / "bed")
    assert dict(window.answers) == {"200": 20}
    assert window.proxies.processes == 4
    assert window.application.processes == 17
    assert window.proxies.pss > 10_000_000
    assert 0 < window.latency(0.5) <= window.latency(0.99)
