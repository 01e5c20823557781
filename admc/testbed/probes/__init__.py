"""One probe for each built-in kind: requests on which the policy has an effect, and the result that they must have.

A probe reads the expected result from the policy's own arguments. A kind without a probe is reported as not
observable, never as enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from admc.testbed.probes.access import authorization, guard, normal_path, token
from admc.testbed.probes.faults import abort, delay
from admc.testbed.probes.limits import breaker, buffer
from admc.testbed.probes.messages import compression, cors, request_header, response_header, rewrite
from admc.testbed.probes.resilience import mirror, retry, split, timeout
from admc.testbed.probes.telemetry import count, log

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from admc.testbed.findings import Bed, ProbeFinding
    from dsl.program import Call, Policy

    Probe = Callable[[Bed, Policy, Call, Request], ProbeFinding]

PROBES: dict[str, Probe] = {
    "allow": guard,
    "deny": guard,
    "jwt": token,
    "normal_paths": normal_path,
    "external_authorization": authorization,
    "retry": retry,
    "timeout": timeout,
    "circuit_breaking": breaker,
    "split": split,
    "mirror": mirror,
    "set_request_header": request_header,
    "add_request_header": request_header,
    "remove_request_header": request_header,
    "set_response_header": response_header,
    "add_response_header": response_header,
    "remove_response_header": response_header,
    "rewrite_path": rewrite,
    "cors": cors,
    "compression": compression,
    "buffer_limit": buffer,
    "fault_delay": delay,
    "fault_abort": abort,
    "access_log": log,
    "request_count": count,
}

REASONS = {
    "outlier_detection": "it ejects one of several endpoints, and a service has one here",
    "load_balancing": "it chooses between endpoints, and a service has one here",
    "tap": "the testbed does not read the files that it writes",
    "lua": "the program does not say what the script does",
    "wasm": "the program does not say what the module does",
}


def probe_of(policy: Policy) -> Probe | None:
    """Return the probe of a policy's kind. For a quota it is None: `limits.quota` probes one from all its callers."""
    return PROBES.get(policy.kind.name) if policy.kind.prelude else None


def why_not_observable(policy: Policy) -> str:
    """Return the reason why there is no probe for a policy."""
    if not policy.kind.prelude:
        return "the program does not say what a kind of its own does"
    return REASONS.get(policy.kind.name, "there is no probe for this kind")
