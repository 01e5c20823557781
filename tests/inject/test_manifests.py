"""Manifests: what is hostile is refused in little time, and text that need not change does not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from admc.base.exits import CommandError
from admc.kubernetes.inject.patch import applied, patch
from admc.manifests import bounds
from admc.manifests.documents import objects
from admc.manifests.read import read
from tests.properties import examples


def changed(text: str, new: Any) -> tuple[str, bool]:
    (document,) = read("app.yaml", text.encode())
    made = patch(document, new)
    found = applied(text, list(made.edits))
    assert read("app.yaml", found.encode())[0].data == new
    return found, made.loses_comments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "the key `a` is there twice"),
        ("x:\n- b: {c: 1, c: 2}\n", "the key `c` is there twice"),
        ("[" * 100_000, "nested deeper"),
        ("a: " * 3 + "{" * 100, "not YAML"),
        ("&a [*a]", "an alias stands for what it is in"),
        ("a: [b", "is not YAML"),
        ("a: \x01", "is not YAML"),
        ("? [x]\n: y\n", "a key is not a text"),
    ],
)
def test_a_stream_that_cannot_be_read_alike_by_all_is_refused(text: str, message: str) -> None:
    with pytest.raises(CommandError) as error:
        read("app.yaml", text.encode())
    (found,) = error.value.diagnostics
    assert found.code == "ADM927"
    assert message in found.message


def test_an_alias_counts_as_often_as_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 50_000)
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    began = time.process_time()
    with pytest.raises(CommandError, match="too large"):
        read("bomb.yaml", "\n".join(levels).encode())
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "{a: &a [x, x, x, x, x, x, x, x, x, x], b: [*a, *a, *a, *a]}\n",
        "{a: &a " + "x" * 400 + ", b: [*a, *a, *a]}\n",
        "{a: &a " + "x" * 100 + ", b: [{*a : 1}, {*a : 1}, {*a : 1}]}\n",
    ],
)
def test_the_bounds_are_those_of_a_file(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document of a stream may have an alias."""
    monkeypatch.setattr(bounds, "MAX_VALUES", 100)
    monkeypatch.setattr(bounds, "MAX_TEXT", 2_000)
    read("a.yaml", text.encode())
    with pytest.raises(CommandError, match="too large"):
        read("a.yaml", f"--- {text}".encode() * 6)


def test_the_bounds_are_those_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 10)
    read("a.yaml", b"[1, 2, 3, 4, 5, 6, 7, 8, 9]")
    for text in (b"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", b"--- [1, 2, 3]\n" * 4):
        with pytest.raises(CommandError, match="too large"):
            read("a.yaml", text)


def test_not_utf8() -> None:
    with pytest.raises(CommandError, match="not UTF-8"):
        read("a.yaml", b"a: \xff")


def test_objects_of_lists_are_found_and_no_others() -> None:
    text = """
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}}
- {apiVersion: v1, kind: PodList, items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}
- apiVersion: apps/v1
  kind: DaemonSetList
  items: [{metadata: {name: d}}, {apiVersion: v1, kind: Pod, metadata: {name: e}}]
---
{apiVersion: batch/v1, kind: CronJob, metadata: {generateName: c-}}
---
{apiVersion: example.com/v1, kind: Deployment, items: [1]}
---
"""
    found = [it for document in read("a.yaml", text.encode()) for it in objects(document)]
    assert [(each.kind, each.namespace, each.name, each.where, each.template) for each in found] == [
        ("Deployment", "shop", "a", ("items", 0), ("spec", "template")),
        ("Pod", "default", "b", ("items", 1, "items", 0), ()),
        ("DaemonSet", "default", "d", ("items", 2, "items", 0), ("spec", "template")),
        ("Pod", "default", "e", ("items", 2, "items", 1), ()),
        ("CronJob", "default", "c-", (), ("spec", "jobTemplate", "spec", "template")),
        ("Deployment", "default", "", (), None),
    ]


def test_readers_of_yaml_1_1_and_json_agree_about_scalars() -> None:
    text = "{a: 2026-11-23, b: 2026-99-99, c: 0x10, d: 'on', e: ~, f: 1.5, 1: x}"
    (document,) = read("a.yaml", text.encode())
    assert json.loads(json.dumps(document.data)) == {
        "a": "2026-11-23", "b": "2026-99-99", "c": 16, "d": "on", "e": None, "f": 1.5, "1": "x"
    }  # fmt: skip


COMMENTED = """\
# first
a: 1   # one
list:
  # above x
  - name: x   # here
    deep: {flow: 1}  # flow
    # in x
  # above w
  - name: w
    text: |
      line # no comment

      last
  # below
# below
z: "q"  # z
# end
"""


def test_comments_order_and_quotes_stay() -> None:
    data = yaml.safe_load(COMMENTED)
    data["list"].insert(0, {"name": "new", "b": [1]})
    data["list"][1]["more"] = True
    data["list"][2]["text"] = "other"
    data["added"] = {"k": "v"}
    text, whole = changed(COMMENTED, data)
    assert not whole
    assert (
        text
        == """\
# first
a: 1   # one
list:
  - name: new
    b:
    - 1
  # above x
  - name: x   # here
    deep: {flow: 1}  # flow
    more: true
    # in x
  # above w
  - name: w
    text: other
  # below
# below
z: "q"  # z
added:
  k: v
# end
"""
    )
    # And back: what came goes, and the rest is as it was.
    again, whole = changed(text, yaml.safe_load(COMMENTED))
    assert not whole
    lost = {line for line in COMMENTED.splitlines() if "#" in line} - set(again.splitlines())
    assert lost <= {"      line # no comment"}


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: [1]}\nc: *x\n",
        "base: &b\n  k: 1\nd:\n  <<: *b\n  l: [2]\n",
        "? a\n: b\n",
        '{"a": [1], "b": {"c": 2}}',
        '{\n    "a": [1],\n    "b": {}\n}\n',
        "--- {a: 1}\n...\n",
        "---\na: 1\n",
        "--- # comment\na:\n- - 1\n  - 2\n",
        "  a: 1\n  b:\n  - x: 1\n    y: 2\n",
        "a: 1\r\nb:\r\n- 1\r\n",
        "a: |+\n  x\n\n",
        "a:\nb:\n",
        "a:\n-\n- x\n",
        "a: !!str 1\nb: 'x'",
        "\ufeffa: 1\nb: [2]\n",
    ],
)
def test_every_style_reads_as_what_was_wanted(text: str) -> None:
    (document,) = read("a.yaml", text.encode())
    data = document.data
    assert changed(text, data) == (text, False)
    changed(text, {**data, "new": {"k": ["v"]}})
    first = next(iter(data))
    changed(text, {**data, first: [{"name": "n"}]})
    if len(data) > 1:
        changed(text, {name: value for name, value in data.items() if name != first})
    changed(text, {"other": 1})


def test_an_item_of_a_list_of_objects_keeps_the_rest_of_its_text() -> None:
    text = "items:\n# one\n- kind: a   # its kind\n  spec: {x: [1]}\n  more: 0123   # as it was\n"
    text += "- {kind: b, spec: 0}\n- kind: c   # c\n"
    data = read("a.yaml", text.encode())[0].data
    first, second, third = data["items"]
    made, whole = changed(text, {"items": [{**first, "spec": {"x": [2]}}, {**second, "spec": 1}, third]})
    assert not whole
    assert made == text.replace("spec: {x: [1]}", "spec:\n    x:\n    - 2").replace(
        "{kind: b, spec: 0}", "kind: b\n  spec: 1"
    )


@pytest.mark.long
@pytest.mark.parametrize("item", ["- name: x\n", "- x\n", "- {}\n", "- kind: x\n"])
def test_a_long_list_of_equal_items_takes_little_time(item: str) -> None:
    text = "spec:\n  list:\n" + f"  {item}" * 20_000
    data = read("a.yaml", text.encode())[0].data
    began = time.process_time()
    changed(text, {"spec": {"list": [*data["spec"]["list"], {"name": "y"}]}})
    changed(text, {"spec": {"list": [*data["spec"]["list"][1:], {"name": "y"}]}})
    assert time.process_time() - began < 60


def test_json_stays_json() -> None:
    text = '{\n    "a": [1],\n    "b": {}\n}\n'
    made, whole = changed(text, {"a": [1, 2], "b": {}})
    assert json.loads(made) == {"a": [1, 2], "b": {}}
    assert made.startswith('{\n    "a"')
    assert not whole  # there was no comment to lose


LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "yes", "x: y", "# no", "two\nlines"])
)
KEYS = st.sampled_from(["name", "a", "b", "spec", "list"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from("pqrs"), "v": inner}), max_size=4)
    ),
    max_leaves=20,
)
DATA = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


def _commented(text: str, marks: list[bool]) -> str:
    """Comments behind lines that end in a plain scalar, as far as the text means the same with them."""
    lines = text.splitlines()
    for index, marked in enumerate(marks[: len(lines)]):
        tried = [*lines[:index], f"{lines[index]} # c{index}", *lines[index + 1 :]]
        if marked and yaml.safe_load("\n".join(tried)) == yaml.safe_load(text):
            lines = tried
    return "\n".join(lines) + "\n"


@given(DATA, DATA, st.lists(st.booleans(), max_size=12), st.sampled_from([None, False, True]), st.booleans())
@examples(150)
def test_any_change_of_any_document_reads_as_wanted_and_leaves_the_rest(
    old: dict[str, Any], new: dict[str, Any], marks: list[bool], flow: bool | None, same: bool
) -> None:
    text = _commented(yaml.safe_dump(old, default_flow_style=flow, sort_keys=False, width=1000), marks)
    wanted = {**old, "added": new} if same else new
    made, whole = changed(text, wanted)
    if same and flow is False:
        assert not whole
        assert made.startswith(text.rstrip("\n"))
