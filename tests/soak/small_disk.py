"""A file system of a few megabytes that is this process's alone, and ways to run out of room.

The mount lives in a mount namespace of the calling process and ends with it. A process that is not root makes itself a
user namespace first, where the system allows it.
"""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_READ_ONLY, _REMOUNT, _PRIVATE, _ALL_BELOW = 1, 32, 1 << 18, 1 << 14
PAGE: Final = 4096


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount_small(place: Path, size: int) -> str:
    """Mounts a tmpfs of `size` bytes at a folder, seen by this process and its children. Returns why not, or ""."""
    try:
        libc, user, group = _libc(), os.getuid(), os.getgid()
        flags = _NEW_MOUNTS if user == 0 else _NEW_MOUNTS | _NEW_USERS
        if libc.unshare(flags):
            return f"unshare: {os.strerror(ctypes.get_errno())}"
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        if libc.mount(None, b"/", None, _ALL_BELOW | _PRIVATE, None):
            return f"private mounts: {os.strerror(ctypes.get_errno())}"
        if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=%d" % size):
            return f"mount: {os.strerror(ctypes.get_errno())}"
    except (AttributeError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def remount(place: Path, *, readonly: bool, size: int) -> None:
    """Makes the small file system read-only, or writable again. OSError where the system refuses."""
    flags = _REMOUNT | (_READ_ONLY if readonly else 0)
    if _libc().mount(b"tmpfs", os.fsencode(place), b"tmpfs", flags, b"size=%d" % size):
        raise OSError(ctypes.get_errno(), "remount")


class Squeeze(Protocol):
    """A way to take the room away from a store, and to give it back."""

    def tighten(self, store: Path, room: int) -> None:
        """From now on there are about `room` bytes left."""

    def loosen(self) -> None:
        """There is room again."""


class FullDisk:
    """A small file system, filled up by another file."""

    def __init__(self, place: Path) -> None:
        self._ballast = place / "ballast"

    def tighten(self, store: Path, room: int) -> None:
        free = os.statvfs(self._ballast.parent)
        left = free.f_bavail * free.f_frsize - room
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            for _ in range(max(0, left) // PAGE):
                file.write(bytes(PAGE))

    def loosen(self) -> None:
        self._ballast.unlink(missing_ok=True)


class FileLimit:
    """The limit on the size of files that a process writes. Python ignores the signal, so that a write just fails."""

    def tighten(self, store: Path, room: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (store.stat().st_size + room, hard))

    def loosen(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
