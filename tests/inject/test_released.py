"""Pods that an earlier release injected are recognised by this one."""

from __future__ import annotations

import json

import pytest

from admc.kubernetes.inject.containers import FORMS, Form
from admc.kubernetes.inject.recognised import recognised
from tests.inject.released import FOLDER, HERE, NEEDS, file_of, written

CHANGED = (
    "the containers or volumes of a released form have changed, and pods in clusters have the earlier ones: put these "
    "back, and add a form (`Form` and `CHANGES` in admc/kubernetes/inject/containers.py) with the change; "
    "`python -m tests.inject.released` writes its file"
)


def test_each_form_has_its_file() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(file_of(form) for form in Form)


@pytest.mark.parametrize("form", Form)
def test_a_released_form_does_not_change(form: Form) -> None:
    assert written(form) == json.loads(file_of(form).read_text()), CHANGED


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("needs", NEEDS)
def test_its_pods_are_recognised(form: Form, needs: str) -> None:
    spec = json.loads(file_of(form).read_text())[needs]
    names = {container["name"] for container in spec["initContainers"]}
    assert recognised({"metadata": {}, "spec": spec}, HERE) == (names, "")


def test_of_several_forms_the_finding_is_about_the_closest() -> None:
    """A pod of an earlier form with one alteration: the finding is not about what the newest form has besides."""
    for form in FORMS:
        spec = json.loads(file_of(form).read_text())["an ADM"]
        spec["initContainers"][1]["env"].append({"name": "LD_PRELOAD", "value": "/x.so"})
        finding = recognised({"metadata": {}, "spec": spec}, HERE).finding
        assert finding == "container `admc-proxy`: `env.LD_PRELOAD` is added"
