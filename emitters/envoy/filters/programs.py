"""Filters of the user's own: Lua scripts, WebAssembly modules, and kinds with a template."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from dsl.program import FileArgument
from emitters.envoy.filters.built import Built
from emitters.envoy.messages.typed import typed
from emitters.envoy.template import fill

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


def lua(context: Context, hop: Hop, policy: Policy) -> Built:
    script = policy.arguments["script"]
    assert isinstance(script, FileArgument)  # noqa: S101 - checked by the resolver
    source = {"inline_bytes": base64.b64encode(script.content).decode()}
    return Built(
        typed("envoy.extensions.filters.http.lua.v3.Lua", default_source_code=source, stat_prefix=policy.name),
        on_response=True,
        writes_request=True,
    )


def wasm(context: Context, hop: Hop, policy: Policy) -> Built:
    """The module travels inside the configuration. A module that fails stops the requests, not the policy."""
    module = policy.arguments["module"]
    assert isinstance(module, FileArgument)  # noqa: S101 - checked by the resolver
    configuration = str(policy.arguments["configuration"])
    return Built(
        typed(
            "envoy.extensions.filters.http.wasm.v3.Wasm",
            config={
                "name": policy.name,
                "fail_open": False,
                "configuration": typed("google.protobuf.StringValue", value=configuration),
                "vm_config": {
                    "vm_id": policy.name,
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"inline_bytes": base64.b64encode(module.content).decode()}},
                },
            },
        ),
        on_response=True,
        writes_request=True,
    )


def template(context: Context, hop: Hop, policy: Policy) -> Built:
    return Built(fill(context, policy), on_response=True, writes_request=True)
