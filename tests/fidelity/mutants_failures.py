"""Mutants whose ADMs tell, forget or believe failures of a service wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Side
from tests.fidelity.failures import failing
from tests.fidelity.mutant import Mutant
from tests.fidelity.mutants_edits import away, connections, every, put, without

if TYPE_CHECKING:
    from tests.fidelity.mutants_edits import Edit, Json

IN, OUT = Side.INGRESS, Side.EGRESS
FILTER = "x-admc-failed"


def failures() -> list[Mutant]:
    """Each in one place of what the two ADMs do with the mark of a failure."""
    about = "failures of a service"
    down, grpc = failing("connect_failure", "http", down=True), failing("connect_failure", "grpc", down=True)
    lost, reset = failing("unavailable", "http"), failing("reset", "http")
    refused = failing("refused_stream", "h2c")
    return [
        Mutant(about, "the receiver's ADM says nothing of it", down, IN, connections(_silent)),
        Mutant(about, "the receiver's ADM says nothing of it", grpc, IN, connections(_silent)),
        Mutant(about, "it says nothing of a reset", reset, IN, put("flags", ["UF", "UR", "UPE"])),
        Mutant(about, "it says nothing of an illegal answer", reset, IN, put("flags", ["UF", "UC", "UR"])),
        Mutant(about, "it says nothing of a refused stream", refused, IN, put("flags", ["UF", "UC", "UPE"])),
        Mutant(about, "the service can say the same", failing("connect_failure", "h2c"), IN, _kept()),
        Mutant(about, "the sender does not listen", down, OUT, away("retriable_headers")),
        Mutant(about, "the sender does not listen", refused, OUT, away("retriable_headers")),
        Mutant(about, "a lost request is sent again", lost, OUT, without(FILTER)),
        Mutant(about, "a lost request is sent again, over HTTP/2", failing("unavailable", "h2c"), OUT, without(FILTER)),
        Mutant(about, "a lost request is not sent again", reset, OUT, put("retry_on", "reset,retriable-headers")),
        Mutant(about, "the caller sees the mark", down, OUT, _kept()),
        Mutant(about, "the caller sees the mark", failing("internal", "grpc", down=True), OUT, _kept()),
        Mutant(about, "the caller sees how it was held back", lost, OUT, away("response_headers_to_remove")),
    ]


def _silent(manager: Json) -> None:
    mappers = manager["local_reply_config"]["mappers"]
    manager["local_reply_config"] = {"mappers": [each for each in mappers if FILTER not in repr(each)]}


def _kept() -> Edit:
    """The mark stays in answers of the upstream."""
    return every("response_headers_to_remove", lambda names: [name for name in names if name != FILTER])
