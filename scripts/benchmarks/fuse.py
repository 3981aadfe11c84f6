"""A file system for `scripts/bench hostile`: while this process is stopped (SIGSTOP), every access to the mount hangs in the
kernel, as on a network file system without its server.

It implements the kernel's protocol (linux/fuse.h) without a library. It stores names and sizes, but no bytes: reads return
zeros. Mounting needs root.
usage: fuse.py MOUNTPOINT
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME = 1, 2, 3, 4, 9, 10, 11, 12
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 14, 15, 16, 17, 18, 20, 25, 26
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, CREATE, BATCH_FORGET, RENAME2 = 27, 28, 29, 30, 35, 42, 45
PIECE = 128 << 10  # maximum bytes of one read or write message
BLOCK = 4096
libc = ctypes.CDLL(None, use_errno=True)


class File:
    """A file or directory of the file system."""

    def __init__(self, number, mode):
        self.number, self.mode, self.size, self.names, self.changed = number, mode, 0, {}, time.time_ns()

    def attributes(self):
        seconds, nanos = divmod(self.changed, 10**9)
        blocks = (self.size + 511) // 512
        times = (seconds, seconds, seconds, nanos, nanos, nanos)
        return struct.pack("<6Q10I", self.number, self.size, blocks, *times, self.mode, 1, os.getuid(), os.getgid(), 0, BLOCK, 0)

    def entry(self):
        return struct.pack("<4Q2I", self.number, 0, 1, 1, 0, 0) + self.attributes()

    def attributes_out(self):
        return struct.pack("<QII", 1, 0, 0) + self.attributes()


class FileSystem:
    def __init__(self):
        self.files = {1: File(1, stat.S_IFDIR | 0o755)}
        self.last = 1
        self.answers = {
            LOOKUP: lambda at, body: self.named(at, body).entry(),
            GETATTR: lambda at, body: self.files[at].attributes_out(),
            SETATTR: self.set_attributes,
            MKDIR: lambda at, body: self.make(at, body[8:], stat.S_IFDIR | 0o755).entry(),
            CREATE: lambda at, body: self.make(at, body[16:], stat.S_IFREG | 0o600).entry() + bytes(16),
            UNLINK: self.remove,
            RMDIR: self.remove,
            RENAME: lambda at, body: self.rename(at, body, body[8:]),
            RENAME2: lambda at, body: self.rename(at, body, body[16:]),
            WRITE: self.write,
            READ: self.read,
            READDIR: self.read_names,
            STATFS: lambda at, body: struct.pack("<5Q10I", *[1 << 30] * 5, BLOCK, 255, BLOCK, *[0] * 7),
            INIT: lambda at, body: struct.pack("<4I2H2I2HI28x", 7, 31, PIECE, 1 << 5, 12, 10, PIECE, 1, 0, 0, 0),
            **dict.fromkeys((OPEN, OPENDIR), lambda at, body: bytes(16)),
            **dict.fromkeys((RELEASE, RELEASEDIR, FLUSH, FSYNC, FSYNCDIR), lambda at, body: b""),
        }

    def named(self, at, name):
        place = self.files[at].names.get(name.split(b"\0")[0])
        if place is None:
            raise OSError(errno.ENOENT, "no such name")
        return self.files[place]

    def make(self, at, name, mode):
        self.last += 1
        file = self.files[self.last] = File(self.last, mode)
        self.files[at].names[name.split(b"\0")[0]] = self.last
        return file

    def remove(self, at, name):
        if self.named(at, name).names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        del self.files[at].names[name.split(b"\0")[0]]
        return b""

    def rename(self, at, body, names):
        before, after = names.split(b"\0")[:2]
        self.files[struct.unpack_from("<Q", body)[0]].names[after] = self.named(at, before).number
        del self.files[at].names[before]
        return b""

    def set_attributes(self, at, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & 8:
            self.files[at].size = size
        return self.files[at].attributes_out()

    def write(self, at, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        self.files[at].size = max(self.files[at].size, offset + size)
        return struct.pack("<II", size, 0)

    def read(self, at, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(max(0, min(size, self.files[at].size - offset)))

    def read_names(self, at, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        out = b""
        for place, (name, number) in enumerate(list(self.files[at].names.items())[offset:], offset + 1):
            dirent = struct.pack("<QQII", number, place, len(name), self.files[number].mode >> 12) + name
            dirent += bytes(-len(dirent) % 8)
            if len(out) + len(dirent) > size:
                break
            out += dirent
        return out

    def answer(self, operation, at, body):
        try:
            return 0, self.answers[operation](at, body)
        except KeyError:
            return errno.ENOSYS if operation not in self.answers else errno.ENOENT, b""
        except OSError as wrong:
            return wrong.errno, b""


def mount(at):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if libc.mount(b"rtrain-bench", os.fsencode(at), b"fuse", ctypes.c_ulong(0), options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {at} failed")
    return device


def unmount(at):
    detach = 2
    libc.umount2(os.fsencode(at), detach)


def serve(device):
    files = FileSystem()
    while True:
        try:
            message = os.read(device, PIECE + (64 << 10))
        except OSError as wrong:
            if wrong.errno == errno.ENODEV:  # unmounted
                return
            if wrong.errno in (errno.EINTR, errno.ENOENT):  # the caller no longer waits
                continue
            raise
        _, operation, unique, at = struct.unpack_from("<IIQQ", message)
        if operation in (FORGET, BATCH_FORGET):
            continue
        error, body = files.answer(operation, at, message[40:])
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except OSError as wrong:
            if wrong.errno != errno.ENOENT:  # the caller no longer waits
                raise


if __name__ == "__main__":
    serve(mount(sys.argv[1]))
