"""Removes from this process what a query does not need: other files, the network, memory, time, CPU priority.

It is the second line of defence, effective if the check of statements is wrong. Where the kernel lacks a mechanism it
continues without, and reports that.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sinks.query.limits import MIB_BYTES, QueryLimits

#: Memory beyond the query's own: the engine, Python and the encoding of the result, with what allocators retain.
_OWN_DATA_BYTES: Final = 512 * MIB_BYTES
#: The kernel counts each stack whole, whatever is used of it. The engine has 35 to 44 threads, and gives each 8 MiB itself.
_STACKS_BYTES: Final = 48 * 8 * MIB_BYTES
_ANSWER_FILE_BYTES: Final = 8 * MIB_BYTES
_GRACE_MS: Final = 2_000

_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_NET_PORT: Final = 2
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_DUMPABLE: Final = 4
# Rights of Landlock, from the kernel's `include/uapi/linux/landlock.h`.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_FS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_FS_LATEST: Final = (1 << 16) - 1
_ALL_NET: Final = 3  # to bind and to connect by TCP
_CONNECT: Final = 2
_ALL_SCOPES: Final = 3  # abstract sockets and signals of others
_FILE_ONLY: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15

_SYSTEM: Final = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm", "/proc/sys/kernel", "/sys/fs/cgroup",
    "/sys/devices/system", "/dev/null", "/dev/urandom",
)  # fmt: skip
_OF_THE_NETWORK: Final = (
    "/etc/ssl",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
)


def lower_priority(nice: int) -> None:
    """Let everything else run first, the more the higher `nice` is, and be killed first when memory is short."""
    with suppress(OSError):
        os.nice(nice - os.nice(0))
    with suppress(OSError):
        # Linux schedules each session as a group, whatever the priorities within: this is the group's priority.
        Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def bound_files(limits: QueryLimits) -> None:
    """Limit the size of a written file, and disable core dumps."""
    size = limits.result_bytes + _ANSWER_FILE_BYTES
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def bound_memory(limits: QueryLimits) -> None:
    """Limit the private memory of the process, independent of the engine's own accounting."""
    most = limits.memory_bytes + limits.result_bytes * 2 + _OWN_DATA_BYTES + _STACKS_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def close_in_helper(cpu_s: int, memory_bytes: int, read: Iterable[str]) -> None:
    """Leave a process that works for a worker its pipe, these files to read, and so much CPU time and memory."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_DATA, memory_bytes),
    ):
        resource.setrlimit(kind, (most, most))
    leave_network()
    close_in(read, [], [])


def end_after(time_ms: int) -> None:
    """Have the kernel end this process when a query exceeds its time limit; 0 cancels that.

    The engine checks its own limit only between blocks of rows.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, (time_ms + _GRACE_MS) / 1000 if time_ms else 0)


def close_in(read: Iterable[str], write: Iterable[str], connect_ports: Iterable[int]) -> list[str]:
    """Restrict this process permanently to these files and TCP ports (Landlock); return what the kernel cannot restrict.

    It must be called before any thread is started: existing threads are not restricted.
    """
    libc = _libc()
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        return ["files", "tcp"]
    fs = _ALL_FS.get(version, _ALL_FS_LATEST)
    net = _ALL_NET if version >= 4 else 0
    attributes = struct.pack("=QQQ", fs, net, _ALL_SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, size, 0)
    if rules < 0:
        return ["files", "tcp"]
    try:
        ports = list(connect_ports)
        for path in (*_SYSTEM, *(_OF_THE_NETWORK if ports else ()), *_python(), *read):
            _allow(libc, rules, path, (_READ_FILE | _READ_DIR | _EXECUTE) & fs)
        for path in write:
            _allow(libc, rules, path, fs & ~_EXECUTE)
        for port in ports if net else ():
            rule = struct.pack("=QQ", _CONNECT, port)
            libc.syscall(_LANDLOCK_ADD_RULE, rules, _NET_PORT, rule, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0) != 0:
            return ["files", "tcp"]
        return [] if net else ["tcp"]
    finally:
        os.close(rules)


def leave_network() -> bool:
    """Move this process into an empty network namespace; return whether the kernel permits it."""
    new_user, new_net = 0x10000000, 0x40000000
    libc = _libc()
    return bool(libc.unshare(new_net) == 0 or libc.unshare(new_user | new_net) == 0)


def _python() -> Iterable[str]:
    """Yield where Python finds its own modules, installed ones, and ours, which may be in a checkout."""
    installed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    own = [str(Path(sys.base_prefix) / name) for name in ("lib", "lib64")]
    ours = Path(__file__).resolve().parents[2]
    return [*installed, *own, str(ours / "schemas"), str(ours / "sinks")]


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path needs no rule
    try:
        allowed = rights if Path(path).is_dir() else rights & _FILE_ONLY
        libc.syscall(_LANDLOCK_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, number), 0)
    finally:
        os.close(number)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
