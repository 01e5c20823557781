"""What is written as text is read as text, by Envoy too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from envoy.extensions.access_loggers.stream.v3.stream_pb2 import StdoutAccessLog
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any

from emitters.addresses import loopback
from emitters.envoy import Mode, emit
from emitters.envoy.messages.typed import to_yaml
from tests.emitters.envoy.support import ENVOY, bootstraps, load, running, validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message


@pytest.mark.parametrize(
    "text", ["y", "n", "Y", "N", "yes", "No", "on", "OFF", "true", "null", "~", "1", "0x1F", "0X1F", ""]
)
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    written = to_yaml({text: [text]})
    assert written.decode() == f"'{text}':\n- '{text}'\n"
    assert yaml.safe_load(written) == {text: [text]}


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoy_reads_names_and_values_of_one_letter_and_empty_expressions(tmp_path: Path) -> None:
    program, placement = load(
        """service n, y { http 8000 }
call n -> y
policy N = timeout(after: 1s) on n -> y when method == "Y"
policy Y = set_request_header(name: "y", value: "n") on n -> y
policy hexadecimal = set_request_header(name: "x", value: "0X1F") on n -> y
policy exponent = set_request_header(name: "z", value: "1e3") on n -> y
policy d = request_count() on n -> y when method matches ""
"""
    )
    for name, content in bootstraps(program, placement).items():
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(content)
        assert validate(path) == ""


LETTERS: Final = ("\x80", "\x9f", "\xa0", "é", "\u2028", "\u2029", "\ufeff", "\ufffd", "'", '"', "#", ": ", "\\N")


@pytest.mark.parametrize("letters", [LETTERS, ("\x85", "\\N")])
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoy_reads_each_letter_as_it_was_written(letters: tuple[str, ...], tmp_path: Path) -> None:
    """Also letters that end a line for some readers of YAML, and those that are written with escapes."""
    texts = [f"{before}{letter}z{letter}{letter}y" for letter in letters for before in ("a", "08", "\\")]
    rules = "".join(
        f'policy p{number} = set_request_header(name: "x-{number}", value: "{_escaped(text)}") on a -> b\n'
        for number, text in enumerate(texts)
    )
    with running(f"service a, b {{ http 8000 }}\ncall a -> b\n{rules}", tmp_path) as run:
        headers = dict(json.loads(run.call("a", "b").body)["headers"])
    for number, text in enumerate(texts):
        assert headers[f"x-{number}"].encode("latin-1").decode() == text, ascii(text)


def _escaped(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else f"\\u{ord(letter):04x}" for letter in text)


def test_the_bytes_of_what_is_packed_are_the_same_in_every_process() -> None:
    """A version is a digest of them, and a proxy drains the connections of a listener whose bytes differ."""
    program, placement = load(
        """external internet
service n { http 8000 }
call internet -> n
policy logged = access_log(format: "json") on internet -> n
"""
    )
    (found,) = emit(program, placement, loopback(program), Mode.EXPLICIT)
    packed = [each for part in (found.listeners, found.routes) for item in part.values() for each in _packed(item)]
    logs = [content for _, content in packed if isinstance(content, StdoutAccessLog)]
    assert logs
    assert all(len(log.log_format.json_format.fields) > 5 for log in logs)
    for value, content in packed:
        assert value == content.SerializeToString(deterministic=True)


def _packed(item: Message) -> Iterator[tuple[bytes, Message]]:
    """All extensions in a message: their bytes, and what these say."""
    for field, value in item.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else [value]:
            if isinstance(each, Any):
                name = descriptor_pool.Default().FindMessageTypeByName(each.TypeName())
                content = message_factory.GetMessageClass(name).FromString(each.value)
                yield each.value, content
                yield from _packed(content)
            else:
                yield from _packed(each)
