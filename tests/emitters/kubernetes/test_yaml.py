"""Text that is written as YAML is the same text to PyYAML and to Kubernetes."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from emitters.envoy.messages.typed import to_yaml as envoy_yaml
from emitters.kubernetes import to_yaml
from tests.emitters.interception.build import service
from tests.emitters.kubernetes.decoding import decoded
from tests.emitters.kubernetes.test_network_policies import objects
from tests.properties import examples

ODD = (
    *("08", "1e3", "1E3", "1e+3", "on", "On", "off", "y", "N", "yes", "NO", "true", "False", "null", "Null", "~", ""),
    *("0o17", "017", "0x1F", "0X1f", "0b11", "1_000", "+1", "-1", "1.", ".5", "1.5", "-.inf", ".NaN", ".INF", "1:30"),
    *("190:20:30.15", "2001-12-14", "2001-12-14t21:59:43.10-05:00", "=", "<<", "---", "...", "-", "?", "!", "&a"),
    *("a: b", "a #b", "#", "'", '"', "\\", "%x", "@", "`", "[a", "{a", "|", ">", " a", "a ", "\t", "a\nb", "\r", "*a"),
    *("\u2028", "\u0085", "\ufeff", "\0", "\x7f", "é", "\U0001f600", "12e03", "1e-3", "0.", "1__0", "0b", "0x", "inf"),
)
LIKE_NUMBERS = st.from_regex(re.compile(r"[-+.0-9][-+.:_0-9a-fA-FxXoOtTzZ]{0,8}"), fullmatch=True)
TEXTS = st.one_of(st.sampled_from(ODD), LIKE_NUMBERS, st.text(max_size=12))


def _reads_back(texts: list[str]) -> None:
    # A key and its text look alike, so each text is one of both.
    items = [{text: [text, {"inner": text}]} for text in texts]
    written = [to_yaml([item]) for item in items] + [envoy_yaml(item).decode() for item in items]
    assert [yaml.safe_load(text) for text in written] == items * 2
    assert [yaml.load(text, yaml.CSafeLoader) for text in written] == items * 2
    assert decoded(written) == items * 2


def test_odd_texts_are_text() -> None:
    _reads_back(list(ODD))


@examples(25)
@given(st.lists(TEXTS, min_size=30, max_size=60))
def test_any_text_is_text(texts: list[str]) -> None:
    _reads_back(texts)


def test_the_decoder_tells_what_is_unquoted() -> None:
    """The judge is able to fail."""
    assert decoded(["a: 08", "a: 1e3", "a: on", "a: '08'"]) == [{"a": 8}, {"a": 1000}, {"a": True}, {"a": "08"}]


LABELS = ("08", "1e3", "on", "1_0", "0x1F", "y", "2001-12-14", "1.5", "", "a.b-c_d", "007", "1e-3", "12e03")


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_a_network_policy(label: str) -> None:
    labels = {"version": label, **({label: "x"} if label else {})}
    found = objects(
        [service("db", labels={**labels, "app": "db"}), service("web", labels={**labels, "app": "web"})],
        [("web", "db")],
        "db",
    )
    (read,) = decoded([to_yaml(found)])
    assert read == yaml.safe_load(to_yaml(found)) == found[0]
