"""What is written as text is read as text, by Envoy too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from emitters.envoy.typed import to_yaml
from tests.emitters.envoy.support import ENVOY, bootstraps, load, validate

if TYPE_CHECKING:
    from pathlib import Path


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
policy d = deny() on n -> y when method matches ""
"""
    )
    for name, content in bootstraps(program, placement).items():
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(content)
        assert validate(path) == ""
