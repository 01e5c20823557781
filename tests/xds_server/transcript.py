"""Conversations written down as text, and held against the server's side of them byte for byte.

    world clusters a=1 b=1-; listeners l=1>r; routes r=1>a     a snapshot is published: names with a number as content,
                                                               `-` for a cluster without endpoints, `>` for what it uses
    > clusters                                                 the client sends a request
    > endpoints a b                                            ... for names (delta: `+a -b`)
    > clusters ack 1                                           ... that takes the response with nonce 1
    > clusters nack 1 too many                                 ... that refuses it with these words
    > routes nack 1 too many; +a -b                            ... and asks for other names in the same breath
    > endpoints a nonce 7                                      ... with this nonce, right or wrong
    > clusters +a has b=1                                      ... delta: `initial_resource_versions`
    > clusters has b=1                                         ... state of the world: the version of these together
    < clusters 1: a=1 b=1                                      the server sends a response with nonce 1
    < clusters 2: -a                                           ... delta: that removes
    again                                                      the client comes back on another stream
    kept clusters a=1; routes r=1>a                            a snapshot that clients acknowledged before a restart
    patience                                                   the server waits no longer for a request of the client
    refused?                                                   it is asked for its status
    = clusters: too many                                       what the client said of what it refuses, or `nothing`
    taken?                                                     it is asked whether the client has taken the whole world
    = yes                                                      ... or `no`: it may have something else, or only a part
    # anything                                                 a remark

What follows a line of the client, or a world, must be all that the server sends. A request of state of the world that
answers a response repeats the names of the last one.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from envoy.service.discovery.v3 import discovery_pb2

from tests.xds_server.build import MESSAGES, WORDS, content_of, resource
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import parse_delta, parse_sotw
from xds_server.resources.earlier_streams import EarlierStreams
from xds_server.resources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xds_server.protocol.wire import Response

NAMES = {url: word for word, url in WORDS.items()}


def world(text: str) -> Snapshot:
    """The snapshot that a `world` line describes. What it refers to is not checked: a transcript may be of anything."""
    resources = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        word, *items = part.split()
        for item in items:
            name, _, rest = item.partition("=")
            content, _, used = rest.partition(">")
            uses = tuple(used.split(",")) if used else ("-",) if content.endswith("-") else ()
            resources.append(resource(WORDS[word], name, int(content.rstrip("-")), uses))
    return Snapshot.of(resources)


class Conversation:
    """One stream of one variant, spoken to in text."""

    def __init__(self, variant: str, *, grpc: bool = False) -> None:
        self._variant = variant
        self._grpc = grpc
        self.stream: Any = None
        self._snapshot = Snapshot.of([])
        self._past = EarlierStreams()
        self._names: dict[str, list[str]] = {}

    def hear(self, line: str) -> list[str]:
        """What the server says after a line."""
        word, _, rest = line.partition(" ")
        if word == "world":
            self._snapshot = world(rest)
            if self.stream is None:
                self._begin()
                return []
            return self._said(self.stream.publish(self._snapshot))
        if word == "again":
            self._begin()
            return []
        if word == "kept":
            self._past.last_acked.snapshot_acked(1, world(rest))
            return []
        if word == "patience":
            return self._said(self.stream.end_wait())
        if word == "refused?":
            said = [f"= {NAMES[each.type_url]}: {each.error}" for each in self.stream.status() if each.error]
            assert self.stream.refuses == bool(said)
            return said or ["= nothing"]
        if word == "taken?":
            whole = self.stream.completed is self._snapshot and not self.stream.changing
            return ["= yes" if whole else "= no"]
        assert word == ">", line
        parse = parse_sotw if self._variant == "sotw" else parse_delta
        request = self._sotw(rest) if self._variant == "sotw" else self._delta(rest)
        return self._said(self.stream.receive(parse(request.SerializeToString())))

    def _begin(self) -> None:
        if self.stream is not None:
            self.stream.leave()
        kind = SotwStream if self._variant == "sotw" else DeltaStream
        self.stream = kind(self._snapshot, SharedResults(), self._past, empty_is_all=not self._grpc)

    def _sotw(self, text: str) -> Any:
        word, *rest = shlex.split(text)
        request = discovery_pb2.DiscoveryRequest(type_url=WORDS[word])
        if rest[:1] in (["ack"], ["nack"]):
            rest = self._answer(request, rest)
            rest = rest or self._names.get(word, [])
        elif "nonce" in rest:
            at = rest.index("nonce")
            request.response_nonce = rest[at + 1]
            rest = rest[:at]
        elif "has" in rest:
            at = rest.index("has")
            request.version_info = world(f"{word} {' '.join(rest[at + 1 :])}").of_type(WORDS[word]).version
            rest = rest[:at]
        request.resource_names.extend(rest)
        self._names[word] = rest
        return request

    def _delta(self, text: str) -> Any:
        word, *rest = shlex.split(text)
        request = discovery_pb2.DeltaDiscoveryRequest(type_url=WORDS[word])
        if rest[:1] in (["ack"], ["nack"]):
            rest = self._answer(request, rest)
        if "nonce" in rest:
            at = rest.index("nonce")
            request.response_nonce = rest[at + 1]
            rest = rest[:at] + rest[at + 2 :]
        if "has" in rest:
            at = rest.index("has")
            for item in rest[at + 1 :]:
                name, _, content = item.partition("=")
                made = world(f"{word} {item}").of_type(WORDS[word]).resources[name]
                assert content
                request.initial_resource_versions[name] = made.version
            rest = rest[:at]
        request.resource_names_subscribe.extend(item[1:] for item in rest if item[0] == "+")
        request.resource_names_unsubscribe.extend(item[1:] for item in rest if item[0] == "-")
        return request

    def _answer(self, request: Any, rest: list[str]) -> list[str]:
        request.response_nonce = rest[1]
        if rest[0] == "ack":
            return rest[2:]
        request.error_detail.message, _, more = " ".join(rest[2:]).partition("; ")
        return more.split()

    def _said(self, responses: list[Response]) -> list[str]:
        return [self._line(response.data) for response in responses]

    def _line(self, data: bytes) -> str:
        if self._variant == "sotw":
            response = discovery_pb2.DiscoveryResponse.FromString(data)
            items = [self._item(packed) for packed in response.resources]
            assert response.version_info
        else:
            response = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
            items = []
            for entry in response.resources:
                item = self._item(entry.resource)
                assert item.startswith(f"{entry.name}="), (entry.name, item)
                assert entry.version
                items.append(item)
            items += [f"-{name}" for name in response.removed_resources]
        return f"< {NAMES[response.type_url]} {response.nonce}: {' '.join(items)}".rstrip()

    def _item(self, packed: Any) -> str:
        message = MESSAGES[packed.type_url]()
        assert packed.Unpack(message)
        name = getattr(message, "name", "") or message.cluster_name
        return f"{name}={content_of(message)}"


def played(text: str, variant: str, *, grpc: bool = False) -> str:
    """The same conversation with what the server says in place of what it was expected to say."""
    conversation = Conversation(variant, grpc=grpc)
    lines = []
    for line in text.splitlines():
        if line.startswith(("<", "=")):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += conversation.hear(line)
    return "\n".join(lines)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The conversations of a file: each begins with `== TITLE`."""
    for part in text.split("\n== ")[1:]:
        title, _, body = part.partition("\n")
        yield title.strip(), body.strip()
