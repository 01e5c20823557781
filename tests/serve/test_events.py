"""Events as text for a user, and two signals in a row."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from admc.serve.observe.events import JsonLines, TextLines
from admc.serve.rollout.marker import MARKER
from tests.serve.server_process import SECONDS, served
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE)


def _text(event: str, level: int = logging.INFO, *, colour: bool = False, **fields: object) -> str:
    record = logging.makeLogRecord({"msg": event, "levelno": level, "levelname": logging.getLevelName(level), **fields})
    line = TextLines(colour=colour).format(record)
    assert TIME.match(line)
    return line[len("00:00:00 ") :]


@pytest.mark.parametrize(
    ("event", "level", "fields", "text"),
    [
        ("stopped", logging.INFO, {}, "info     stopped"),
        ("listening", logging.INFO, {"xds": "[::1]:1", "tls": False}, "info     listening  xds=[::1]:1 tls=no"),
        (
            "unlisted",
            logging.WARNING,
            {"destinations": ("geo", "rate"), "callers": (), "of": 2},
            "warning  unlisted  destinations=geo,rate callers=none of=2",
        ),
        (
            "refused",
            logging.WARNING,
            {"node": "a", "said": "no\nsuch filter", "type": "Listener"},
            "warning  refused  node=a type=Listener\n    said: no\n    such filter",
        ),
        (
            "finding",
            logging.ERROR,
            {"about": "program", "code": "ADM101", "file": "a.adm", "line": 1, "column": 2, "text": "error[ADM101]: x"},
            "error    finding  about=program\n    error[ADM101]: x",
        ),
        ("the disk is on fire", logging.ERROR, {}, "error    message\n    the disk is on fire"),
    ],
)
def test_text(event: str, level: int, fields: dict[str, object], text: str) -> None:
    assert _text(event, level, **fields) == text


def test_what_a_client_says_takes_over_no_terminal_and_passes_for_no_event() -> None:
    said = "x\n12:00:00 info     compiled\x1b[2J \u202e"
    for text in (_text("refused", said=said), _text("refused", said=[said]), _text(said)):
        assert len(TIME.findall("00:00:00 " + text)) == 1
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("form", [JsonLines(), TextLines(colour=False)])
def test_no_value_of_an_event_shows_a_control_sequence_or_the_marker(form: logging.Formatter) -> None:
    text = f"x\x1b[2J\u202e {MARKER}: {'0123456789abcdef' * 4}"
    error = ValueError(text)
    record = logging.makeLogRecord(
        {
            "msg": "refused",
            "levelno": logging.ERROR,
            "levelname": "ERROR",
            "exc_info": (ValueError, error, None),
            "path": Path(text),
            "cause": error,
            "nodes": {text: [text]},
        }
    )
    line = form.format(record)
    shown = str(json.loads(line)) if isinstance(form, JsonLines) else line
    assert shown.count(MARKER) == line.count(MARKER) == 5
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "0123456789abcdef" not in shown


def test_colour_is_for_the_level_and_the_event_alone() -> None:
    assert _text("stopped", colour=True, why="so be it") == "info     \x1b[1mstopped\x1b[0m\n    why: so be it"
    assert _text("refused", logging.WARNING, colour=True).startswith("\x1b[1;33mwarning ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("terminal", "options", "text"),
    [(True, (), True), (True, ("--log", "json"), False), (False, ("--log", "text"), True)],
)
def test_text_to_a_terminal_and_where_it_is_asked_for(
    tmp_path: Path, terminal: bool, options: tuple[str, ...], text: bool
) -> None:
    (tmp_path / "policies.adm").write_text("app x\nservice a { http 80 }\ncall a -> b\n")
    command = [sys.executable, "-m", "admc", "serve", "policies.adm", "--mode", "explicit", "--plaintext", *options]
    command += ["--xds", "127.0.0.1:0", "--ops", "127.0.0.1:0"]
    mine, its = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(command, cwd=tmp_path, stderr=its, stdin=subprocess.DEVNULL)
    os.close(its)
    try:
        if text:
            told = re.sub(r"\x1b\[[\d;]*m", "", _until(mine, "no_state_yet"))
            assert re.match(r"\d\d:\d\d:\d\d info +listening  xds=127\.0\.0\.1:\d+ ", told)
            assert re.search(r"\n    error\[ADM101\]: [^\n]*`b`[^\n]*\n     --> policies\.adm:3:11\n", told)
        else:
            assert json.loads(_until(mine, "\n").splitlines()[0])["event"] == "listening"
    finally:
        process.kill()
        process.wait()
        os.close(mine)


@pytest.mark.long
def test_a_second_signal_does_not_wait_for_a_proxy_that_owes_an_answer(tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(
        "app x\nservice a, b { http 80 }\ncall a -> b\npolicy p = timeout(after: 1s) on a -> b\n"
    )
    with served(tmp_path, "policies.adm", "--mode", "explicit") as server, grpc.insecure_channel(server.xds) as channel:
        server.until_event("compiled")
        ask = discovery_pb2.DiscoveryRequest(node=base_pb2.Node(id="a", cluster="a"), type_url=CLUSTER)
        held = threading.Event()

        def requests() -> Iterator[discovery_pb2.DiscoveryRequest]:
            yield ask
            held.wait()

        answers = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).StreamAggregatedResources(requests())
        assert next(answers).type_url == CLUSTER
        server.process.send_signal(signal.SIGTERM)
        server.until_event("draining")
        assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM
        assert server.events("cut_short")
        held.set()


def _until(stream: int, words: str) -> str:
    told, deadline = b"", time.monotonic() + SECONDS
    while words.encode() not in told:
        assert select.select([stream], [], [], deadline - time.monotonic())[0], told
        told += os.read(stream, 1 << 16)
    return told.decode().replace("\r\n", "\n")
