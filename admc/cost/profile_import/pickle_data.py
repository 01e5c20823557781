"""Reads a pickle as data. Nothing that the file names is ever imported, called or built.

    bytes -> [read] -> numbers, texts, bytes, lists, tuples, dictionaries, Name, Object

Python's own reader executes a pickle, so an untrusted file could run any program. This reader cannot do so: a name
becomes a `Name`, and a call or a new object becomes an `Object` with its arguments and its state. Only the names and
instructions that a numeric profile needs are accepted. Any other is refused before anything is done with it.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

MAX_BYTES: Final = 4_000_000
MAX_INSTRUCTIONS: Final = 100_000
MAX_STACK: Final = 10_000
MAX_DIGITS: Final = 100
MAX_TEXT: Final = 10_000
MAX_KEY: Final = 32
"""Most texts of one key. A file can refer to one text many times, so a key may be much larger than the file."""


class PickleError(Exception):
    """The file is no pickle, exceeds a limit, or has a name or an instruction that is not accepted."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        """Offset of the instruction in the file."""


class Name(NamedTuple):
    """A class or a function by its name. It is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Object:
    """A call or a new object: the name, the arguments, and the state that the file gives it. Nothing was called."""

    of: Name
    arguments: tuple[object, ...]
    state: object = None


class _Mark:
    """The place on the stack where a list, a tuple or a dictionary begins."""


_MARK: Final = _Mark()


def read(content: bytes, names: Collection[Name]) -> object:
    """The value of a pickle: numbers, texts, bytes, lists, tuples, dictionaries, `Name` and `Object`.

    Only `names` may occur in it. Raises `PickleError`.
    """
    if len(content) > MAX_BYTES:
        raise PickleError(f"it has more than {MAX_BYTES:,} bytes", 0)
    return _Machine(names).run(content)


Step = Callable[["_Machine", Any], None]


@dataclass
class _Machine:
    names: Collection[Name]
    stack: list[object] = field(default_factory=list)
    memo: dict[int, object] = field(default_factory=dict)
    position: int = 0

    def run(self, content: bytes) -> object:
        for number, (name, argument, position) in enumerate(_instructions(content)):
            self.position = position
            if number >= MAX_INSTRUCTIONS:
                raise self.error(f"it has more than {MAX_INSTRUCTIONS:,} instructions")
            if name == "STOP":
                value = self.pop()
                if self.stack:
                    raise self.error("it ends with values that belong to nothing")
                return value
            step = _STEPS.get(name)
            if step is None:
                raise self.error(f"it has the instruction `{name}`, which data does not need")
            step(self, argument)
            if len(self.stack) > MAX_STACK or len(self.memo) > MAX_INSTRUCTIONS:
                raise self.error("it is nested too deeply")
        raise self.error("it has no end")

    def error(self, message: str) -> PickleError:
        return PickleError(message, self.position)

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self) -> object:
        if not self.stack or self.stack[-1] is _MARK:
            raise self.error("an instruction lacks its value")
        return self.stack.pop()

    def top(self) -> object:
        if not self.stack or self.stack[-1] is _MARK:
            raise self.error("an instruction lacks its value")
        return self.stack[-1]

    def marked(self) -> list[object]:
        """Pop all values above the last mark, and the mark."""
        values: list[object] = []
        while self.stack:
            value = self.stack.pop()
            if value is _MARK:
                return values[::-1]
            values.append(value)
        raise self.error("an instruction lacks its mark")

    def name(self, module: object, name: object) -> Name:
        global_name = Name(module, name) if isinstance(module, str) and isinstance(name, str) else None
        if global_name is None:
            raise self.error("it names a class by something that is no text")
        if global_name not in self.names:
            raise self.error(f"it imports `{str(global_name)[:100]}`")
        return global_name

    def key(self, value: object) -> object:
        """Check a key of a dictionary, which is a text or a tuple of texts."""
        items = value if isinstance(value, tuple) else (value,)
        if len(items) > MAX_KEY:
            raise self.error(f"it has a dictionary with a key of more than {MAX_KEY} texts")
        if not all(isinstance(item, str) for item in items):
            raise self.error("it has a dictionary with a key that is no text")
        return value


def _instructions(content: bytes) -> Iterator[tuple[str, Any, int]]:
    """Name, argument and position of each instruction, read by Python's disassembler, which executes none."""
    position = 0
    try:
        for opcode, argument, at in pickletools.genops(content):
            position = at or 0
            yield opcode.name, argument, position
    except (ValueError, IndexError, OverflowError, EOFError) as error:
        raise PickleError("it is no pickle, or it was cut short", position) from error


# ---- one function for each instruction ----


def _nothing(_machine: _Machine, _argument: object) -> None:
    return


def _literal(machine: _Machine, argument: object) -> None:
    if isinstance(argument, int) and argument.bit_length() > MAX_DIGITS:
        raise machine.error("it has a number with too many digits")
    if isinstance(argument, str) and len(argument) > MAX_TEXT:
        raise machine.error(f"it has a text of more than {MAX_TEXT:,} characters")
    machine.push(argument)


def _bytes(machine: _Machine, argument: bytearray) -> None:
    machine.push(bytes(argument))


def _constant(value: object) -> Step:
    return lambda machine, _argument: machine.push(value)


def _mark(machine: _Machine, _argument: object) -> None:
    machine.push(_MARK)


def _pop(machine: _Machine, _argument: object) -> None:
    machine.pop()


def _empty(kind: type[list[object]] | type[dict[object, object]]) -> Step:
    return lambda machine, _argument: machine.push(kind())


def _tuple(length: int | None) -> Step:
    def step(machine: _Machine, _argument: object) -> None:
        if length is None:
            machine.push(tuple(machine.marked()))
        else:
            machine.push(tuple([machine.pop() for _ in range(length)][::-1]))

    return step


def _list(machine: _Machine, _argument: object) -> None:
    machine.push(machine.marked())


def _dictionary(machine: _Machine, _argument: object) -> None:
    values = machine.marked()
    machine.push({})
    _fill(machine, values)


def _append(machine: _Machine, _argument: object) -> None:
    _extend(machine, [machine.pop()])


def _appends(machine: _Machine, _argument: object) -> None:
    _extend(machine, machine.marked())


def _extend(machine: _Machine, values: list[object]) -> None:
    target = machine.top()
    if not isinstance(target, list):
        raise machine.error("it adds to something that is no list")
    target.extend(values)


def _set_item(machine: _Machine, _argument: object) -> None:
    value, key = machine.pop(), machine.pop()
    _fill(machine, [key, value])


def _set_items(machine: _Machine, _argument: object) -> None:
    _fill(machine, machine.marked())


def _fill(machine: _Machine, values: list[object]) -> None:
    target = machine.top()
    if not isinstance(target, dict) or len(values) % 2:
        raise machine.error("it adds to something that is no dictionary")
    for key, value in zip(values[::2], values[1::2], strict=True):
        target[machine.key(key)] = value


def _put(machine: _Machine, argument: int) -> None:
    # The disassembler reads the digits `00` and `01` as truth values.
    machine.memo[int(argument)] = machine.top()


def _memoize(machine: _Machine, _argument: object) -> None:
    machine.memo[len(machine.memo)] = machine.top()


def _get(machine: _Machine, argument: int) -> None:
    number = int(argument)
    if number not in machine.memo:
        raise machine.error("it refers to a value that it does not have")
    machine.push(machine.memo[number])


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.push(machine.name(module, name))


def _stack_global(machine: _Machine, _argument: object) -> None:
    name, module = machine.pop(), machine.pop()
    machine.push(machine.name(module, name))


def _call(machine: _Machine, _argument: object) -> None:
    arguments, of = machine.pop(), machine.pop()
    if not isinstance(of, Name) or not isinstance(arguments, tuple):
        raise machine.error("it calls something that is no name")
    machine.push(Object(of, arguments))


def _build(machine: _Machine, _argument: object) -> None:
    state, target = machine.pop(), machine.top()
    if not isinstance(target, Object) or target.state is not None:
        raise machine.error("it gives a state to something that is no new object")
    target.state = state


_STEPS: Final[Mapping[str, Step]] = {
    **dict.fromkeys(("PROTO", "FRAME"), _nothing),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _literal),
    **dict.fromkeys(("FLOAT", "BINFLOAT"), _literal),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _literal),
    **dict.fromkeys(("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"), _literal),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), _literal),
    "BYTEARRAY8": _bytes,
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "MARK": _mark,
    "POP": _pop,
    "EMPTY_LIST": _empty(list),
    "EMPTY_DICT": _empty(dict),
    "LIST": _list,
    "DICT": _dictionary,
    "EMPTY_TUPLE": _tuple(0),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": _tuple(None),
    "APPEND": _append,
    "APPENDS": _appends,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    "MEMOIZE": _memoize,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _call),
    "BUILD": _build,
}
