"""The HTTP endpoints of replicas: one that stands by answers too, and goes on answering when it becomes active."""

from __future__ import annotations

import http.client
import signal
import threading
from typing import TYPE_CHECKING

from admc.__main__ import main
from tests.cluster.serve.test_takeover import LONG, active, follows
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    import pytest

    from tests.cluster.serve.installation import Installation


def test_a_replica_is_ready_before_there_is_a_program(shop: Installation) -> None:
    with shop.server() as server:
        code, text = server.until(lambda: (answer := server.get("/readyz"))[0] == 200 and answer)
        assert text.startswith("starting: "), (code, text)
        assert server.metric("admc_ready") == 0
        assert server.metric("admc_lease_held") == 1


def test_a_replica_that_stands_by_says_so_and_names_the_active_one(
    shop: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    with active(shop) as (server, _), shop.server(port=free_port(), stands_by=True) as standby:
        holder = server.status()["server"]["holder"]
        sentence = f"this replica stands by; `{holder}` is active\n"
        assert standby.get("/healthz") == (200, "alive\n")
        standby.until(lambda: standby.get("/readyz") == (200, sentence))
        standby.until_event("kept_state_ready")
        assert (server.metric("admc_lease_held"), standby.metric("admc_lease_held")) == (1, 0)
        assert standby.metric("process_open_fds") > 0
        row = standby.status()["server"]
        assert (row["role"], row["holder"], row["why"]) == ("standby", holder, "")

        capsys.readouterr()
        assert main(["status", "--server", f"http://{standby.ops}", "--detailed-exitcode"]) == 2
        printed = capsys.readouterr().out.splitlines()
        assert printed[0] == f"standing by for `installation `{shop.name}``"
        assert printed[2] == f"standby: `{holder}` is active"
        assert main(["rollout", "abort", "--server", f"http://{standby.ops}"]) == 1
        assert sentence.strip() in capsys.readouterr().err


def test_no_request_is_left_without_an_answer_while_a_replica_becomes_active(shop: Installation) -> None:
    with active(shop) as (server, state), shop.server(port=free_port(), stands_by=True) as standby:
        standby.until_event("kept_state_ready")
        ops = standby.ops
        # One connection for all of it: the HTTP server of the replica that stands by is that of the active one.
        connection = http.client.HTTPConnection(*ops.rsplit(":", 1), timeout=LONG)
        connection.connect()
        own_port = connection.sock.getsockname()[1]
        answers: list[tuple[int, str]] = []
        over = threading.Event()

        def ask() -> None:
            while not over.wait(0.02):
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                answers.append((answer.status, answer.read().decode()))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            server.stop(signal.SIGKILL)
            follows(standby, state)
            standby.until(lambda: answers and answers[-1] == (200, "serving\n"), LONG)
        finally:
            over.set()
            asking.join()
        assert connection.sock is not None
        assert connection.sock.getsockname()[1] == own_port
        connection.close()
        assert standby.ops == ops
        assert {code for code, _ in answers} == {200}
        assert answers[0][1].startswith("this replica stands by; ")
        assert standby.metric("admc_lease_held") == 1
