"""The values of the chart: one source, and defaults that are those of the product."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from admc import __version__
from admc.cli.serve_cluster import LABEL
from admc.kubernetes.inject.names import ENVOY_IMAGE, IMAGE
from tests.deploy import values
from tests.deploy.chart import CHART


def defaults() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(values.VALUES.read_text(encoding="utf-8"))
    return found


def test_the_file_and_the_page_say_what_the_schema_says() -> None:
    hint = "write both anew with `python -m tests.deploy.values`"
    assert values.VALUES.read_text(encoding="utf-8") == values.values_text(), hint
    shown = values.TABLE.search(values.PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0] == values.table(), hint


def test_the_defaults_fit_the_schema_and_the_release() -> None:
    Draft7Validator.check_schema(values.schema())
    Draft7Validator(values.schema()).validate(defaults())
    assert (defaults()["image"], defaults()["envoyImage"]) == (IMAGE, ENVOY_IMAGE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert values.schema()["properties"]["installation"]["pattern"] == f"^{LABEL.pattern}$"


def test_each_value_is_used_by_a_template() -> None:
    templates = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())
    unused = [each for each in values.values(values.schema()) if f".Values.{'.'.join(each.path)}" not in templates]
    assert not unused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("installation", "Main"),
        ("installation", "a" * 41),
        ("installation", ""),
        ("image", ""),
        ("image", "admc:0.1.0 "),
        ("replicas", 0),
        ("replicas", "2"),
        ("imagePullPolicy", "always"),
        ("listenAddress", "::"),
        ("namespaces", ["Shop"]),
        ("namespaces", "shop"),
        ("alsoImages", ["admc "]),
        ("alsoImages", ["registry.example.com/admc@sha256:00"]),
        ("alsoEnvoyImages", "envoy"),
        ("admLimits", "cpu=500m,"),
        ("admLimits", "cpu=0.5"),
        ("tls", {"secret": "tls"}),
        ("replica", 2),
    ],
)
def test_what_the_schema_refuses(name: str, value: Any) -> None:
    given = {**copy.deepcopy(defaults()), name: value}
    assert not Draft7Validator(values.schema()).is_valid(given)
