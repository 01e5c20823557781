"""A filter that leaves only the decision in the answers of an authorization service.

An admission by gRPC may come with an `ok_response`: headers and query parameters that Envoy then writes into the
request, and headers, `:status` and `content-length` among them, that it writes into the response. No setting of Envoy's
filter excludes query parameters and responses. So this filter removes that part of the answer before Envoy's filter
reads it, and neither the request nor the response changes, as the kind's effects declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.messages.typed import extension

if TYPE_CHECKING:
    from emitters.envoy.messages.typed import Json

# A `CheckResponse` is one protobuf message in one gRPC frame. Any other body is removed, and Envoy then treats the call
# as failed, as if the service were absent.
_SCRIPT: Final = """\
local OK_RESPONSE = 3
local WIDTHS = {[1] = 8, [5] = 4}

local function varint(bytes, at, most)
  local value, factor = 0, 1
  for index = at, at + most - 1 do
    local byte = bytes:byte(index)
    if not byte then return end
    value, factor = value + byte % 128 * factor, factor * 128
    if byte < 128 then return value, index + 1 end
  end
end

local function verdict(bytes)
  local kept, at = {}, 1
  while at <= #bytes do
    local tag, after = varint(bytes, at, 4)
    if not tag then return end
    local kind, size = tag % 8, nil
    if kind == 0 then
      size, after = varint(bytes, after, 10)
      size = size and 0
    elseif kind == 2 then
      size, after = varint(bytes, after, 4)
    else
      size = WIDTHS[kind]
    end
    if not size or after + size > #bytes + 1 then return end
    if (tag - kind) / 8 ~= OK_RESPONSE then kept[#kept + 1] = bytes:sub(at, after + size - 1) end
    at = after + size
  end
  return table.concat(kept)
end

function envoy_on_response(handle)
  local body = handle:body()
  if not body then return end
  local bytes = body:getBytes(0, body:length())
  local plain, a, b, c, d = bytes:byte(1, 5)
  local said = plain == 0 and d and ((a * 256 + b) * 256 + c) * 256 + d == #bytes - 5 and verdict(bytes:sub(6))
  local size = said and #said or 0
  local head = said and string.char(0, math.floor(size / 16777216), math.floor(size / 65536) % 256,
    math.floor(size / 256) % 256, size % 256)
  body:setBytes(said and head .. said or "")
end
"""


def only_verdicts() -> Json:
    """The filter, for the cluster of a service that decides by gRPC."""
    return extension(
        "verdict", "envoy.extensions.filters.http.lua.v3.Lua", default_source_code={"inline_string": _SCRIPT}
    )
