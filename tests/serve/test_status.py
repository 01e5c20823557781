"""The status: its rows, its JSON, its text, and invalid responses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.serve.observe import status as model
from admc.serve.observe.status import (
    NetworkRow,
    NodeRow,
    ServerPhase,
    Status,
    StatusFormatError,
    TypeRow,
    collect,
    from_json,
    server_row,
    to_json,
)
from admc.serve.observe.status_text import render
from xds_server.protocol.type_state import TypeStatus
from xds_server.protocol.wire import ClientNode
from xds_server.resources.types import CLUSTER, LISTENER
from xds_server.transport.client import ClientStatus

SCHEMA = json.loads((Path(model.__file__).parents[2] / "status.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NEW, OLD = "1a2b3c4d5e6f", "99aabbccddee"


def client(
    group: str, node: str, acknowledged: str = NEW, sent: str = NEW, error: str = "", claimed: str = "", **more: Any
) -> ClientStatus:
    types = (TypeStatus(CLUSTER, "c2", "c2", "c1" if error else "c2", error), TypeStatus(LISTENER, "l", "l", "l", ""))
    return ClientStatus(
        group, ClientNode(node, claimed or group, "envoy"), "ipv4:10.0.0.1:5", "delta", types, since=1_000_000_000.0,
        wanted=NEW, sent=sent, acknowledged=acknowledged, **more,
    )  # fmt: skip


def serving(
    *clients: ClientStatus, phase: ServerPhase = ServerPhase.SERVING, why: str = "", rollout: str = ""
) -> Status:
    row = server_row(
        phase=phase, app="shop", source="policies.adm", state="abcdef0123", started=1e9, why=why, rollout=rollout
    )
    return collect(replace(row, version="0.1.0"), ["search", "geo"], {"search": NEW, "geo": NEW}, clients)


def test_adms_without_proxies_and_proxies_without_adms_are_both_there() -> None:
    found = serving(client("search", "b"), client("search", "a", OLD), client("web", "w"))
    assert [(adm.service, adm.in_plan, adm.in_sync, len(adm.nodes)) for adm in found.adms] == [
        ("geo", True, False, 0),
        ("search", True, False, 2),
        ("web", False, True, 1),
    ]
    assert [(node.id, node.in_sync) for node in found.adms[1].nodes] == [("a", False), ("b", True)]
    assert found.adms[1].nodes[0].types[0] == TypeRow("Cluster", "c2", "c2", "c2", "")


def test_a_proxy_that_sent_a_nack_is_not_in_sync_and_its_error_is_shown() -> None:
    (node,) = serving(client("geo", "g", OLD, error="no such thing")).adms[0].nodes
    assert (node.in_sync, node.error) == (False, "no such thing")


def test_the_last_line_break_of_a_refusal_is_none_of_its_words() -> None:
    (node,) = serving(client("geo", "g", OLD, error="no such thing\nat all\n")).adms[0].nodes
    assert node.error == "no such thing\nat all"


def test_a_proxy_with_another_node_cluster_is_shown() -> None:
    found = serving(client("geo", "g", claimed="web", identity="spiffe://t/geo"), client("search", "s"))
    assert [node.claimed for adm in found.adms for node in adm.nodes] == ["web", "search"]
    assert "in sync, calls itself `web`\n" in render(found)
    assert render(found).count("calls itself") == 1


def test_json_fits_the_schema_and_reads_back() -> None:
    for found in (
        serving(client("search", "a", OLD, error="bad\n\x1b[2J"), client("web", "ü", identity="spiffe://t/w")),
        collect(server_row(phase=ServerPhase.STARTING, app="", source="x", state="", started=0.0), [], {}, []),
    ):
        content = to_json(found)
        VALIDATOR.validate(json.loads(content))
        assert from_json(content) == found


def test_text() -> None:
    found = serving(
        client("search", "search-1"),
        client("search", "search-2", OLD, error="listener in:\nport \x1b[31m80"),
        client("search", "search-3", OLD, sent=OLD),
        client("search", "search-4", OLD),
        client("search", "search-5", ""),
        client("old", "old-1"),
        why="policies.adm:3: there is no kind `rat_limit`",
    )
    assert render(found) == (
        "serving `shop` from `policies.adm`, state abcdef01\n"
        "admc 0.1.0, since 2001-09-09T01:46:40Z\n"
        "problem: policies.adm:3: there is no kind `rat_limit`\n"
        "\n"
        "ADM     NODE      WANTED    SENT      ACKED\n"
        "geo     -         1a2b3c4d  -         -         no proxy is connected\n"
        "old     old-1     1a2b3c4d  1a2b3c4d  1a2b3c4d  in sync, has no ADM in the plan\n"
        "search  search-1  1a2b3c4d  1a2b3c4d  1a2b3c4d  in sync\n"
        "        search-2  1a2b3c4d  1a2b3c4d  99aabbcc  refused\n"
        "    refused Cluster: listener in:\\nport \\x1b[31m80\n"
        "        search-3  1a2b3c4d  99aabbcc  99aabbcc  kept at the last good one\n"
        "        search-4  1a2b3c4d  1a2b3c4d  99aabbcc  behind\n"
        "        search-5  1a2b3c4d  1a2b3c4d  -         starting\n"
        "\n"
        "2 ADMs, 1 without a proxy; 6 proxies, 4 not in sync\n"
    )


def test_a_rollout_is_no_problem_and_hides_none() -> None:
    moving = "`quota` changes places: step `prepare`"
    said = render(serving(why=moving, rollout=moving)).splitlines()
    assert said[2:4] == [f"rollout: {moving}", ""]
    # A proxy that enforces until the last step must not be removed.
    said = render(serving(client("old", "old-1"), rollout=moving))
    assert "in sync, may still enforce policies; the next plan has no ADM here\n" in said
    said = render(serving(why="there is no kind `rat_limit`", rollout=moving)).splitlines()
    assert said[2:5] == ["problem: there is no kind `rat_limit`", f"rollout: {moving}", ""]


def test_unlisted_names_are_shown() -> None:
    found = serving(client("search", "s"), client("geo", "g"))
    names = tuple(f"s{number}" for number in range(7))
    said = render(replace(found, server=replace(found.server, unlisted=names))).splitlines()
    missing = "no addresses for: `s0`, `s1`, `s2`, `s3`, `s4` and 2 more; connections that may be theirs are refused"
    assert said[2:4] == [missing, ""]
    assert from_json(to_json(replace(found, server=replace(found.server, unlisted=names)))).server.unlisted == names
    assert "no address" not in render(found)


def test_a_replica_that_stands_by_names_the_active_one() -> None:
    found = serving(client("search", "s"), client("geo", "g"))
    assert "standby" not in render(found)
    waiting = replace(found, server=replace(found.server, role="standby", holder="admc-1_ab"))
    assert render(waiting).splitlines()[0] == f"standing by for `{found.server.source}`, state {found.server.state[:8]}"
    assert render(waiting).splitlines()[2] == "standby: `admc-1_ab` is active"
    assert found.settled
    assert not waiting.settled, "it says nothing of the proxies"
    alone = replace(found, server=replace(found.server, role="unsure"))
    assert render(alone).splitlines()[2] == "unsure: no replica is known to be active"
    assert from_json(to_json(waiting)) == waiting


def test_policies_in_the_network_are_listed_with_what_they_leave_open() -> None:
    found = serving(client("search", "s"))
    rows = tuple(NetworkRow(f"p{number}", "rate") for number in range(7))
    there = replace(found, server=replace(found.server, in_network=rows))
    assert render(there).splitlines()[2] == (
        "in the network: `p0` at `rate`, `p1` at `rate`, `p2` at `rate`, `p3` at `rate`, `p4` at `rate` and 2 more; "
        "connections older than their NetworkPolicies stay open"
    )
    assert from_json(to_json(there)) == there


def test_a_status_of_an_earlier_release_is_read() -> None:
    found = serving(client("search", "s"))
    document = json.loads(to_json(found))
    document["schema_version"] = 2
    del document["server"]["in_network"]
    assert from_json(json.dumps(document).encode()) == found


def test_what_is_wanted_is_in_force_only_where_nothing_is_wrong() -> None:
    both = client("search", "s"), client("geo", "g")
    assert serving(*both).settled
    assert not serving(*both[:1]).settled
    assert not serving(*both, why="the program has an error, and the last good state stays").settled


def test_text_before_there_is_a_program() -> None:
    row = server_row(
        phase=ServerPhase.STARTING, app="", source="p.adm", state="", started=1e9, why="it is being compiled"
    )
    assert render(collect(replace(row, version="1"), [], {}, [])) == (
        "starting with nothing yet from `p.adm`\n"
        "admc 1, since 2001-09-09T01:46:40Z\n"
        "not ready: it is being compiled\n"
        "\n"
        "0 ADMs; 0 proxies\n"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "line 1 is not JSON; the file may be cut short"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b'{"x":' + b"[" * 100_000, "it is nested too deeply (line 1)"),
        (b"[]", "it is not a JSON object"),
        (b'{"schema_version": true}', "it has no `schema_version`"),
        (b'{"schema_version": 4}', "it has schema version 4, and this admc reads 3"),
        (b'{"schema_version": 1}', "it has schema version 1, and this admc reads 3"),
        (b'{"schema_version": 2}', "`the document` lacks `server` (line 1)"),
        (b'{"schema_version": 2, "server": {}, "adms": 5}', "`server` lacks `version` (line 1)"),
    ],
)
def test_other_answers_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(StatusFormatError) as caught:
        from_json(content)
    assert str(caught.value) == why


TEXTS = st.text(max_size=30)


@given(st.builds(NodeRow, *[TEXTS] * 10, st.booleans(), TEXTS, st.lists(st.builds(TypeRow, *[TEXTS] * 5)).map(tuple)))
def test_no_answer_takes_over_a_terminal(node: NodeRow) -> None:
    found = serving()
    shown = render(replace(found, adms=(replace(found.adms[0], nodes=(node,)),)))
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert len(shown.splitlines()) == 7 + sum(bool(item.error) for item in node.types)
