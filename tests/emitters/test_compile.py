"""What no Envoy can do is said on every compile, not only where configuration is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError, Exit
from admc.compile.pipeline import compile_program

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """app test
external internet
service shop {
  http web 80
  http api 81
}
call internet -> shop:web, shop:api
policy quota = rate_limit(requests: 9, per: 1s) on * -> shop
"""


def test_a_plan_that_envoy_cannot_carry_out_is_none(tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(TEXT)
    with pytest.raises(CommandError) as caught:
        compile_program(path)
    assert caught.value.exit_code == Exit.NO_PLACEMENT
    assert [found.code for found in caught.value.diagnostics] == ["ADM708"]
    path.write_text(TEXT.replace("* -> shop", "* -> shop:web"))
    assert compile_program(path).placement.adms
