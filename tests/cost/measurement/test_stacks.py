"""Which part of a hop a sampled stack belongs to: stacks as the kernel records them, written here by its format."""

from __future__ import annotations

import gzip
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import pack

import pytest

from admc.cost.measurement import sampler
from admc.cost.measurement.stacks import LostError, Stack, Symbols, counted, label, part_of, stacks

FUNCTIONS = (
    "do_syscall_64",
    "__x64_sys_writev",
    "do_writev",
    "tcp_sendmsg",
    "_copy_from_iter",
    "__local_bh_enable_ip",
    "handle_softirqs",
    "net_rx_action",
    "process_backlog",
    "tcp_v4_rcv",
    "ep_poll_callback",
    "__x64_sys_readv",
    "tcp_recvmsg",
    "_copy_to_iter",
    "tcp_cleanup_rbuf",
    "__x64_sys_epoll_wait",
    "schedule",
    "__x64_sys_accept4",
    "asm_sysvec_apic_timer_interrupt",
    "run_timer_softirq",
    "asm_exc_page_fault",
    "rcu_core",
)
START = 0xFFFFFFFF81000000
SIZE = 0x100
ROOM = 1 << 18


def address(function: str, offset: int = 0x20) -> int:
    return START + SIZE * FUNCTIONS.index(function) + offset


@pytest.fixture(scope="module")
def symbols() -> Symbols:
    return Symbols(kallsyms())


def kallsyms() -> Iterator[str]:
    for function in FUNCTIONS:
        start = address(function, 0)
        yield f"{start - 0x10:016x} T __pfx_{function}"
        yield f"{start:016x} T {function}"
    yield f"{START + SIZE * len(FUNCTIONS):016x} t nf_hook_slow\t[nf_tables]"
    yield f"{START - SIZE:016x} D data_before"


def stack(*functions: str) -> Stack:
    """From the innermost function outwards."""
    return Stack(False, [address(function) for function in functions])


SEND = ("tcp_sendmsg", "do_writev", "__x64_sys_writev", "do_syscall_64")
RECEIVE = ("tcp_v4_rcv", "process_backlog", "net_rx_action", "handle_softirqs", "__local_bh_enable_ip")
READ = ("tcp_recvmsg", "__x64_sys_readv", "do_syscall_64")


@pytest.mark.parametrize(
    ("part", "functions"),
    [
        ("write", SEND),
        ("write", ("tcp_sendmsg", "do_writev", "do_syscall_64")),  # `__x64_sys_writev` has jumped
        ("write", ("_copy_from_iter", *SEND)),
        ("write", ("__local_bh_enable_ip", *SEND)),  # the transmission, until the other end receives
        ("ipc", (*RECEIVE, *SEND)),
        ("ipc", ("ep_poll_callback", *RECEIVE, *SEND)),  # the wake-up of the other end
        ("ipc", (*RECEIVE, "tcp_cleanup_rbuf", *READ)),  # an acknowledgement arrives
        ("ipc", (*RECEIVE, "asm_sysvec_apic_timer_interrupt")),
        ("read", READ),
        ("read", ("_copy_to_iter", *READ)),
        ("read", ("asm_exc_page_fault", "_copy_to_iter", *READ)),  # the fault is a part of the copy
        ("notification", ("schedule", "__x64_sys_epoll_wait", "do_syscall_64")),
        ("kernel", ("__x64_sys_accept4", "do_syscall_64")),
        ("kernel", ("do_syscall_64",)),  # entry and exit do not say of which call
        ("kernel", ("asm_exc_page_fault",)),
        ("kernel", ("asm_sysvec_apic_timer_interrupt", *SEND)),
        ("kernel", ("rcu_core", "handle_softirqs", "__local_bh_enable_ip", *SEND)),
        ("kernel", ()),
    ],
)
def test_the_innermost_beginning_decides(symbols: Symbols, part: str, functions: Sequence[str]) -> None:
    assert part_of(stack(*functions), symbols) == part


def test_a_stack_of_user_space_is_the_users(symbols: Symbols) -> None:
    assert part_of(Stack(True, ()), symbols) == "user"


def test_a_return_address_may_lie_behind_the_function_that_called(symbols: Symbols) -> None:
    """A call of a function that never returns may be the last instruction; the next function begins behind it."""
    behind = address("do_writev", SIZE - 0x10)
    assert part_of(Stack(False, [address("tcp_sendmsg"), behind]), symbols) == "write"
    assert part_of(Stack(False, [behind]), symbols) == "kernel"


@pytest.mark.parametrize(
    ("function", "part"),
    [
        ("__arm64_sys_recvmsg", "read"),
        ("__se_sys_sendto", "write"),
        ("__x64_sys_epoll_pwait2", "notification"),
        ("do_writev", "write"),
        ("ksys_pread64", "read"),
        ("___sys_sendmsg", "write"),
        ("do_epoll_ctl", "notification"),
        ("__x64_sys_futex", None),
        ("do_futex", None),
        ("net_rx_action.isra.0", "ipc"),
        ("el1h_64_irq", "kernel"),
        ("asm_common_interrupt", "kernel"),
        ("__pfx___x64_sys_writev", None),
        ("tcp_sendmsg", None),
        ("ep_poll", None),
    ],
)
def test_the_beginnings(function: str, part: str | None) -> None:
    assert label(function) == part


def test_a_kernel_that_hides_its_addresses_is_noticed(symbols: Symbols) -> None:
    assert symbols.known
    assert not Symbols(f"{0:016x} T {function}" for function in FUNCTIONS).known
    assert not Symbols(line for line in kallsyms() if "net_rx" not in line and "backlog" not in line).known


def test_lines_that_are_none_are_passed_over() -> None:
    odd = ["", "x", "zz T __x64_sys_writev", "-5 T a", "f" * 99 + " T __x64_sys_writev", "1 T", "\0\0\0", *kallsyms()]
    assert Symbols(odd).known


# ---- records ----


def sample(*frames: int, user: bool = False) -> bytes:
    return record(9, pack(f"={1 + len(frames)}Q", len(frames), *frames), 2 if user else 1)


def record(kind: int, content: bytes, mode: int = 0) -> bytes:
    return pack("=IHH", kind, mode, 8 + len(content)) + content


KERNEL_MARK = 2**64 - 128


def recorded(*functions: str) -> bytes:
    return sample(KERNEL_MARK, *(address(function) for function in functions))


def test_records_become_parts(symbols: Symbols) -> None:
    records = [
        recorded(*SEND),
        recorded(*RECEIVE, *SEND),
        sample(user=True),
        sample(user=True),
        record(6, b"\0" * 24),  # of no sample
        recorded(*READ),
    ]
    assert counted(b"".join(records), ROOM, symbols) == {"write": 1, "ipc": 1, "user": 2, "read": 1}


def test_marks_are_no_frames(symbols: Symbols) -> None:
    (found,) = stacks(recorded("tcp_sendmsg"))
    assert found == Stack(False, [address("tcp_sendmsg")])


@pytest.mark.parametrize("kind", [2, 5, 13])
def test_samples_that_the_kernel_left_out_are_noticed(symbols: Symbols, kind: int) -> None:
    with pytest.raises(LostError, match="left samples out"):
        counted(recorded(*SEND) + record(kind, b"\0" * 16), ROOM, symbols)


def test_a_full_buffer_is_noticed(symbols: Symbols) -> None:
    records = recorded(*SEND) * 100
    with pytest.raises(LostError, match="did not fit"):
        counted(records, len(records) + 100, symbols)


@pytest.mark.parametrize(
    "broken",
    [
        record(9, b""),
        record(9, pack("=QQ", 7, 1)),
        record(9, pack("=Q", 2**63)),
        recorded(*SEND)[:-8],
        pack("=IHH", 9, 1, 0) * 8,
        pack("=IHH", 1, 0, 4) * 8,
    ],
)
def test_a_broken_record_is_an_error(symbols: Symbols, broken: bytes) -> None:
    with pytest.raises(LostError, match="broken"):
        counted(broken, ROOM, symbols)


# ---- what a machine allows ----


@pytest.mark.parametrize(
    ("seconds", "cores", "period"), [(1.0, 0.007, 100_000), (0.4, 0.5, 500_000), (8.0, 0.9, 10**6)]
)
def test_busy_processes_are_sampled_less_often(seconds: float, cores: float, period: int) -> None:
    assert sampler.period_for(cores, seconds) == period


def test_a_kernel_that_accounts_interrupts_apart_is_noticed(tmp_path: Path) -> None:
    assert not sampler._interrupts_apart(tmp_path)
    configuration = tmp_path / "boot" / f"config-{platform.release()}"
    configuration.parent.mkdir()
    configuration.write_text("CONFIG_A=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n")
    assert not sampler._interrupts_apart(tmp_path)
    configuration.write_text("CONFIG_A=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\nCONFIG_B=y\n")
    assert sampler._interrupts_apart(tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "config.gz").write_bytes(gzip.compress(b"CONFIG_A=y\n"))
    assert not sampler._interrupts_apart(tmp_path)
