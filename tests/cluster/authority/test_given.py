"""Certificate and authority from files, which another program replaces while the server runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError
from admc.kubernetes.cluster.authority.given import GivenAuthority
from admc.serve.auth.tls import TlsFiles
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = Authority("first"), Authority("second")


def given(folder: Path, authority: bytes = FIRST.certificate) -> GivenAuthority:
    certificate, key = FIRST.issue(dns=("localhost",)).write(folder, "tls")
    (folder / "ca.crt").write_bytes(authority)
    return GivenAuthority(TlsFiles(certificate, key), folder / "ca.crt")


def test_a_replaced_authority_is_used_and_a_broken_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = given(tmp_path)
    assert files.bundle == FIRST.certificate.decode()
    both = FIRST.certificate + SECOND.certificate
    (tmp_path / "ca.crt").write_bytes(both)
    assert files.bundle == both.decode()
    for broken in (b"", b"half of"):
        (tmp_path / "ca.crt").write_bytes(broken)
        for _ in range(2):
            assert files.bundle == both.decode()
    (tmp_path / "ca.crt").unlink()
    assert files.bundle == both.decode()
    problems = [vars(record)["problem"] for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(problems) == 3
    assert "it has no certificate in PEM form" in problems[0]
    (tmp_path / "ca.crt").write_bytes(SECOND.certificate)
    assert files.bundle == SECOND.certificate.decode()


def test_nothing_but_certificates_of_the_file_gets_to_proxies(tmp_path: Path) -> None:
    files = given(tmp_path, b"# ours\n" + FIRST.key + FIRST.certificate)
    assert files.bundle == FIRST.certificate.decode()


def test_a_replaced_certificate_is_used(tmp_path: Path) -> None:
    files = given(tmp_path)
    before = files.material()
    FIRST.issue(dns=("localhost",)).write(tmp_path, "tls")
    assert files.material() != before


@pytest.mark.parametrize(("content", "code"), [(b"", "ADM850"), (FIRST.key, "ADM850"), (None, "ADM802")])
def test_a_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, content: bytes | None, code: str) -> None:
    given(tmp_path)
    path = tmp_path / "ca.crt"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(CommandError) as caught:
        GivenAuthority(TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key"), path)
    assert [item.code for item in caught.value.diagnostics] == [code]
