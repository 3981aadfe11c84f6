"""Messages between a rank and one of its processes: a kind, a number, and at most one descriptor of sealed memory.

A SOCK_SEQPACKET socket keeps message boundaries, and reports the end of its peer. Both ends belong to the same user.
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import struct

_HEAD = struct.Struct("<BQ")
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid
_MOST_DESCRIPTORS = 4


class Kind(enum.IntEnum):
    READY = 1  # from the process: it has imported its modules; the number is its pid
    LOAD = 2  # from the rank: functions; the number is their work's
    MAKE = 3  # from the rank: rows; the number is the job's
    MADE = 4  # from the process: the rows that the job made
    FAILED = 5  # from the process: the job failed, with the traceback


class Stranger(RuntimeError):
    """The peer of a socket belongs to another user, or sends a message that rtrain does not send."""


def check_peer(sock: socket.socket) -> None:
    """Raises Stranger unless the process at the other end belongs to this process's user."""
    content = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(content)
    if uid != os.geteuid():
        raise Stranger(f"process {pid} of user {uid} is at the other end of a socket of user {os.geteuid()}")


def send(sock: socket.socket, kind: Kind, number: int, descriptor: int | None = None) -> None:
    """Sends a message, and a copy of the descriptor. OSError where the peer has ended."""
    socket.send_fds(sock, [_HEAD.pack(kind, number)], [] if descriptor is None else [descriptor], socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> tuple[Kind, int, int | None] | None:
    """Returns the next message, whose descriptor the caller closes; None where the peer has ended. Stranger for any other message."""
    try:
        content, descriptors, flags, _ = socket.recv_fds(sock, _HEAD.size + 1, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None
    try:
        if not content and not descriptors:
            return None
        if len(content) != _HEAD.size or len(descriptors) > 1 or flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            raise Stranger(f"a message of {len(content)} bytes and {len(descriptors)} descriptors was received")
        kind, number = _HEAD.unpack(content)
        if kind not in Kind._value2member_map_:
            raise Stranger(f"a message of the unknown kind {kind} was received")
    except BaseException:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        raise
    return Kind(kind), number, descriptors[0] if descriptors else None
