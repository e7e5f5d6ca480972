"""What a process that reads private rows may do: limits of resources, and Linux's Landlock.

The engine keeps to the policy's files by itself. This is the wall behind it: whatever a fault
in a parser or a library lets a statement do, the process reaches no other file, and no network
that the policy does not name.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Numbers of system calls, the same on every machine."""
_VERSION, _BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_READ = 1 << 2 | 1 << 3
"""To read files and to list folders."""
_WRITE = 1 << 1 | 1 << 5 | 1 << 8
"""To write files, to make them and to remove them: a ledger has files beside it."""
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3
_ALL = (1 << 13) - 1
"""Every right of the first version."""
_TCP, _TCP_SINCE = 1 | 2, 4
_SCOPE, _SCOPE_SINCE = 1 | 2, 6
"""Abstract sockets of other processes, and signals to them."""
_NEW_USER, _NEW_NETWORK = 1 << 28, 1 << 30
_CAPABILITIES, _FILES = 0x20080522, 1 << 1 | 1 << 2 | 1 << 3
"""The version of capabilities, and those by which root opens the files of others."""
_SYSTEM = (
    "/lib", "/lib64", "/proc", "/sys", "/usr", "/dev/random", "/dev/urandom",
    "/etc/ld.so.cache", "/etc/localtime",
)  # fmt: skip
_NETWORKED = ("/etc",)
"""How names of machines are resolved, and certificates: without network, /etc is shut."""
FILES = 1024
"""Files that may be open at once."""


def limit(memory: int) -> None:
    """Bound what this process takes: bytes of addresses, open files, no core dumps."""
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (soft, soft))


def limit_processor(seconds: float) -> None:
    """Have the system end this process once it has worked so much longer."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def unplug() -> bool:
    """Leave this process a network of its own, on which nobody is; return whether that can be.

    Landlock knows of TCP alone. It is done before there are threads: they would keep theirs,
    and the system refuses it to them where somebody else than root asks.
    """
    user, group = os.geteuid(), os.getegid()
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    if unshare is None or unshare(_NEW_NETWORK | (_NEW_USER if user else 0)) != 0:
        return False
    with suppress(OSError):  # without it others are shown as nobody: rights stay
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    return True


def drop() -> None:
    """Give up what root may, but to read and write whose files ever the walls leave.

    With the rest, it would read the environment of other processes through any wall.
    """
    kept, capset = 0 if os.geteuid() else _FILES, getattr(ctypes.CDLL(None), "capset", None)
    if capset is not None:
        capset(struct.pack("Ii", _CAPABILITIES, 0), struct.pack("6I", kept, kept, *[0] * 4))


def confine(readable: Iterable[Path], writable: Iterable[Path], *, network: bool) -> bool:
    """Shut out all other files, and the network unless it is needed; for good.

    Args:
        readable: files, and folders with all that is in them.
        writable: folders in which files are written.
        network: whether connections may be made.

    Returns:
        Whether the system can; where it cannot, nothing is shut out.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, _VERSION)
    if version < 1:
        return False
    truncate = _TRUNCATE if version >= _TRUNCATE_SINCE else 0
    tcp = 0 if network or version < _TCP_SINCE else _TCP
    known = 8 * (1 + (version >= _TCP_SINCE) + (version >= _SCOPE_SINCE))
    handled = struct.pack("QQQ", _ALL | truncate, tcp, _SCOPE)[:known]
    rules = libc.syscall(_CREATE, handled, len(handled), 0)
    if rules < 0:
        return False
    try:
        system = (*_SYSTEM, *(_NETWORKED if network else ()))
        for path in {*map(Path, system), *_python(), *readable}:
            _allow(libc, rules, path, _READ)
        for path in writable:
            _allow(libc, rules, path, _READ | _WRITE | truncate)
        _allow(libc, rules, Path(os.devnull), _READ | 1 << 1 | truncate)
        shut = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        return shut and bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _python() -> set[Path]:
    """Return where modules are that may still be imported."""
    found = {*sys.path, *sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}
    return {Path(path) for path in found if path and os.path.isdir(path)}


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    """Allow what is done with a path; of a file, what can be done with files."""
    with suppress(FileNotFoundError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not path.is_dir():
                rights &= 1 << 1 | 1 << 2 | _TRUNCATE
            beneath = struct.pack("=Qi", rights, place)
            if libc.syscall(_ADD, rules, _BENEATH, beneath, 0) != 0:
                raise OSError(ctypes.get_errno(), f"{path} cannot be allowed")
        finally:
            os.close(place)
