"""The certificate and the authority of `--tls-cert`, `--tls-key` and `--tls-ca`: files that may be replaced while the
server runs, as cert-manager does it with a mounted Secret.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from cryptography import x509

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import read_bounded
from admc.base.terminal import visible
from admc.kubernetes.cluster.authority.certificates import pem
from admc.serve.auth.tls import CertificateFiles
from admc.serve.file_watch import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from admc.serve.auth.tls import TlsFiles

LOG: Final = logging.getLogger("admc.cluster")
MAX_FILE: Final = 1_000_000


class GivenAuthority:
    """The same as `AuthorityKeeper`, for files. `material` is safe to call in any thread."""

    problem: Final = ""
    """Empty: files that cannot be used leave the last good ones in use, and the log has the problem."""

    def __init__(self, certificate: TlsFiles, authority: Path) -> None:
        """Read the files. Raises `CommandError`."""
        self.material = CertificateFiles(certificate)
        self._path, self._seen = authority, look(authority)
        self._bundle = _certificates(authority)

    async def until_usable(self) -> None:
        """Return at once: the files were read."""

    async def run(self, is_shown: Callable[[str], bool]) -> None:
        """Return at once: another program makes the files."""

    @property
    def bundle(self) -> str:
        """Return the certificates of the file, and nothing else that it has; those that were usable last, if it cannot
        be used at present."""
        seen = look(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._bundle = _certificates(self._path)
            except CommandError as error:
                problem = "; ".join(": ".join(filter(None, (item.message, item.cause))) for item in error.diagnostics)
                LOG.error("last_good_authority_stays", extra={"problem": problem})
        return self._bundle


def _certificates(path: Path) -> str:
    content = read_bounded(path, MAX_FILE, "the authority", regular=True)
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise wrong_usage(
            "ADM850",
            f"`{visible(str(path))}` cannot be used for `--tls-ca`",
            cause="it has no certificate in PEM form",
            hint="`--tls-ca FILE` has the certificate of the authority that issued `--tls-cert`",
        ) from None
    return "".join(pem(certificate).decode() for certificate in certificates)
