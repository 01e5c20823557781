"""`wasm`: a WebAssembly module of the user's own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, ClassVar

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import FileArgument, Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Wasm(EnvoyKind):
    """The module is inside the configuration. If the module fails, requests fail, and none passes without the
    policy."""

    module: FileArgument
    configuration: str

    replies_with_any_status: ClassVar[bool] = True

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        code = {"local": {"inline_bytes": base64.b64encode(self.module.content).decode()}}
        return HttpFilter(
            typed(
                "envoy.extensions.filters.http.wasm.v3.Wasm",
                config={
                    "name": policy.name,
                    "fail_open": False,
                    "configuration": typed("google.protobuf.StringValue", value=self.configuration),
                    "vm_config": {"vm_id": policy.name, "runtime": "envoy.wasm.runtime.v8", "code": code},
                },
            ),
            on_response=True,
            writes_request=True,
            writes_anything=True,
        )
