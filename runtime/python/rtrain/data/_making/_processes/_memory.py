"""Sealed memory: bytes in a nameless file of the kernel's memory that no process can change.

A descriptor is sent to another process. The memory is freed with its last descriptor and mapping, however the processes end.

    u64 number of buffers | u64 bytes of the head | u64 bytes of each buffer | head | buffers, each aligned to 64 bytes
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import struct
import weakref
from collections.abc import Sequence
from typing import Any

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_ALIGNED = 64
_PROT_READ_WRITE, _MAP_PRIVATE = 3, 2
_AT_ONCE = 512  # buffers of one writev
_U64 = struct.Struct("<Q")


class NotSealed(RuntimeError):
    """Received memory could still be changed, or does not match its lengths."""


def sealed(head: bytes, buffers: Sequence[Any]) -> int:
    """Returns a descriptor of sealed memory with these bytes. The caller closes it."""
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    lengths = b"".join(_U64.pack(number) for number in (len(views), len(head), *(len(view) for view in views)))
    parts: list[Any] = [lengths, head]
    end = len(lengths) + len(head)
    for view in views:
        parts += [bytes(-end % _ALIGNED), view]
        end += -end % _ALIGNED + len(view)
    descriptor = os.memfd_create("rtrain-data", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write(descriptor, [memoryview(part) for part in parts if len(part)])
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write(descriptor: int, parts: list[memoryview]) -> None:
    while parts:
        written = os.writev(descriptor, parts[:_AT_ONCE])
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if written:
            parts[0] = parts[0][written:]


def opened(descriptor: int) -> tuple[memoryview, list[memoryview]]:
    """Returns head and buffers. The caller may write into them, which changes nothing for other processes. The memory stays
    mapped while one of them exists, also after the descriptor is closed.

    NotSealed if the memory could still be changed, or is shorter than its lengths.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise NotSealed(f"a descriptor that was received is no memory with seals: {error}") from error
    if seals & _SEALS != _SEALS:
        raise NotSealed(f"memory that was received can still be changed (its seals are {seals:#x})")
    size = os.fstat(descriptor).st_size
    if size < 2 * _U64.size:
        raise NotSealed(f"memory that was received has {size} bytes, which is too few for its lengths")
    memory = _mapped(descriptor, size)
    count, head = (number for (number,) in _U64.iter_unpack(memory[: 2 * _U64.size]))
    if count > size // _U64.size:
        raise NotSealed(f"memory of {size} bytes was received that names {count} buffers")
    begin = (2 + count) * _U64.size
    lengths = [number for (number,) in _U64.iter_unpack(memory[2 * _U64.size : begin])]
    ends = itertools.accumulate(lengths, lambda end, length: end + -end % _ALIGNED + length, initial=begin + head)
    *_, end = places = list(ends)
    if end > size:
        raise NotSealed(f"memory of {size} bytes was received whose buffers end at {end}")
    buffers = [memory[stop - length : stop] for stop, length in zip(places[1:], lengths, strict=True)]
    return memory[begin : begin + head], buffers


def _mapped(descriptor: int, size: int) -> memoryview:
    """Maps memory for this process. `mmap.mmap` is not used, because it keeps a descriptor for each mapping."""
    libc = _libc()
    address = libc.mmap(None, size, _PROT_READ_WRITE, _MAP_PRIVATE, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), f"{size} bytes of a process cannot be mapped")
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return memoryview(memory).cast("B")


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
