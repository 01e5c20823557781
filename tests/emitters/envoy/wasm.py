"""A WebAssembly filter, put together byte by byte: it adds `x-wasm: yes` to every request."""

from __future__ import annotations

_I32 = 0x7F
_NAME, _VALUE = b"x-wasm", b"yes"
_NAME_AT, _VALUE_AT, _HEAP_AT = 16, 32, 1024


def _number(value: int) -> bytes:
    """LEB128."""
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        if not value and not low & 0x40:
            return bytes([*found, low])
        found.append(low | 0x80)


def _vector(items: list[bytes]) -> bytes:
    return _number(len(items)) + b"".join(items)


def _text(value: str) -> bytes:
    return _number(len(value)) + value.encode()


def _section(number: int, content: bytes) -> bytes:
    size = len(content)
    # Section sizes are unsigned: a plain two-byte form is always legal here.
    return bytes([number, 0x80 | (size & 0x7F), size >> 7]) + content


def _type(parameters: int, results: int) -> bytes:
    return b"\x60" + _vector([bytes([_I32])] * parameters) + _vector([bytes([_I32])] * results)


def _const(value: int) -> bytes:
    return b"\x41" + _number(value)


def _body(code: bytes) -> bytes:
    content = b"\x00" + code + b"\x0b"
    return bytes([len(content)]) + content


def module() -> bytes:
    """The module. Function 0 is the host's `proxy_add_header_map_value`."""
    types = [_type(0, 0), _type(2, 0), _type(1, 1), _type(3, 1), _type(5, 1)]
    imports = [_text("env") + _text("proxy_add_header_map_value") + b"\x00\x04"]
    functions = [bytes([index]) for index in (0, 1, 2, 3)]
    exports = [
        _text("memory") + b"\x02\x00",
        _text("proxy_abi_version_0_2_1") + b"\x00\x01",
        _text("proxy_on_context_create") + b"\x00\x02",
        _text("proxy_on_memory_allocate") + b"\x00\x03",
        _text("proxy_on_request_headers") + b"\x00\x04",
    ]
    request_headers, drop, call = 0, b"\x1a", b"\x10\x00"
    arguments = (request_headers, _NAME_AT, len(_NAME), _VALUE_AT, len(_VALUE))
    on_request = b"".join(_const(item) for item in arguments) + call + drop + _const(0)
    bodies = [_body(b""), _body(b""), _body(_const(_HEAP_AT)), _body(on_request)]
    data = [
        b"\x00" + _const(at) + b"\x0b" + _number(len(text)) + text
        for at, text in ((_NAME_AT, _NAME), (_VALUE_AT, _VALUE))
    ]
    return b"\0asm\x01\0\0\0" + b"".join(
        [
            _section(1, _vector(types)),
            _section(2, _vector(imports)),
            _section(3, _vector(functions)),
            _section(5, b"\x01\x00\x01"),
            _section(7, _vector(exports)),
            _section(10, _vector(bodies)),
            _section(11, _vector(data)),
        ]
    )
