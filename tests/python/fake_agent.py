"""An agent for one attempt, in this process. It implements runtime/worker/protocol.md, stores received messages, and
can be killed and restarted. Tests request deviations from the protocol (a lost answer, a refusal) by name.
"""

from __future__ import annotations

import base64
import contextlib
import json
import pathlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any


class FakeAgent:
    def __init__(self, folder: pathlib.Path, world_size: int = 1, storage: pathlib.Path | None = None) -> None:
        self.socket_path = folder / "agent.sock"
        self.storage = storage or folder / "storage"
        self.storage.mkdir(parents=True, exist_ok=True)
        self.world_size = world_size
        self.key = "secret"
        self.resume: dict[str, Any] | None = None
        self.heard: list[dict[str, Any]] = []  # every received frame, with its rank
        # Report indexes that are received and passed, but not answered on this connection.
        self.lose_answers_to: set[int] = set()
        self.commit_error: dict[int, str] = {}
        self.commits_held = False
        self.no_room = ""  # the reason why there is no directory for files
        self.no_room_ranks: set[int] | None = None  # the ranks concerned; None: all
        self.refusals_left = 0  # number of hellos to refuse before one is accepted
        self.news = threading.Condition()
        self._reports: dict[int, dict[int, dict[str, Any]]] = {}
        self._passed: set[int] = set()
        self._committed: dict[int, dict[str, Any]] = {}
        self._broadcasts: dict[int, dict[int, str | None]] = {}
        self._wanted = 0
        self._staged = 0
        self._lines: dict[int, socket.socket] = {}
        self._holders: dict[int, int] = {}  # the process that has the rank's place, by rank
        self._listener: socket.socket | None = None
        self.start()

    # -- life ---------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self.socket_path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.socket_path))
        self._listener.listen(16)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Breaks every connection and stops listening, as kill -9 would."""
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.socket_path.unlink(missing_ok=True)
        with self.news:
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            with contextlib.suppress(OSError):  # the worker has closed it already
                line.shutdown(socket.SHUT_RDWR)

    def environment(self, rank: int = 0) -> dict[str, str]:
        return {
            "RTRAIN_WORKER_SOCKET": str(self.socket_path),
            "RTRAIN_WORKER_KEY": "secret",
            "RTRAIN_ATTEMPT": "ab12cd-7-a3",
            "RANK": str(rank),
        }

    # -- what tests ask -----------------------------------------------------------------------------------------------
    def frames(self, kind: str) -> list[dict[str, Any]]:
        with self.news:
            return [frame for frame in self.heard if frame["type"] == kind]

    def wait(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        with self.news:
            assert self.news.wait_for(condition, seconds), f"not seen within {seconds} s; heard {self.heard[-5:]}"

    def want(self, what: int) -> None:
        with self.news:
            self._wanted = what
            for line in self._lines.values():
                self._say(line, {"type": "wanted", "what": what})

    def say_all(self, frame: dict[str, Any]) -> None:
        with self.news:
            for line in self._lines.values():
                self._say(line, frame)

    def release_commits(self) -> None:
        with self.news:
            self.commits_held = False
            for index in list(self._committed):
                self._announce(index)

    # -- the conversation ---------------------------------------------------------------------------------------------
    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        rank = -1
        with line, line.makefile("rb") as stream:
            while True:
                try:
                    prefix = stream.read(4)
                    if len(prefix) < 4:
                        return
                    frame = json.loads(stream.read(struct.unpack(">I", prefix)[0]))
                except (OSError, ValueError):
                    return
                with self.news:
                    if frame["type"] == "hello":
                        rank = frame["rank"]
                    self.heard.append({**frame, "from": rank})
                    self._answer(line, rank, frame)
                    self.news.notify_all()

    def _answer(self, line: socket.socket, rank: int, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if kind == "hello":
            self._welcome(line, rank, frame)
        elif kind == "stage":
            if self.no_room and (self.no_room_ranks is None or rank in self.no_room_ranks):
                return self._say(line, {"type": "staged", "path": "", "error": self.no_room})
            self._staged += 1
            path = self.storage / f".staging-{self._staged}"
            path.mkdir()
            self._say(line, {"type": "staged", "path": str(path)})
        elif kind == "report":
            self._reports.setdefault(frame["index"], {})[rank] = frame
            if frame["index"] in self._passed:
                self._say(line, {"type": "reported", "index": frame["index"], "directory": None})
            elif len(self._reports[frame["index"]]) == self.world_size:
                self._pass(frame["index"])
        elif kind == "release":
            self._holders.pop(rank, None)
            line.shutdown(socket.SHUT_RDWR)
        elif kind == "broadcast":
            self._broadcasts.setdefault(frame["index"], {})[rank] = frame["data"]
            if len(self._broadcasts[frame["index"]]) == self.world_size:
                data = self._broadcasts[frame["index"]].get(0)
                for peer in self._lines.values():
                    self._say(peer, {"type": "broadcast", "index": frame["index"], "data": data})

    def _welcome(self, line: socket.socket, rank: int, hello: dict[str, Any]) -> None:
        if hello["key"] != self.key or self.refusals_left > 0:
            self.refusals_left -= 1
            self._say(line, {"type": "refuse", "message": "wrong key"})
            line.shutdown(socket.SHUT_RDWR)
            return
        holder = self._holder_for(rank, hello)
        if holder == 0:
            self._lines[rank] = line
        context = {
            "run_id": "ab12cd-7", "run_name": "story", "attempt": 3, "world_rank": rank, "world_size": self.world_size,
            "local_rank": rank, "local_world_size": self.world_size, "node_rank": 0, "node": "here",
            "storage_path": str(self.storage), "run_path": str(self.storage / "story"), "user": "ana",
            "checkpoint_upload": "async", "world_ranks_by_node": [list(range(self.world_size))],
        }  # fmt: skip
        passed = max(self._passed, default=0)
        shared = sum(len(come) == self.world_size for come in self._broadcasts.values())
        self._say(line, {
            "type": "welcome", "protocol": 1, "context": context, "checkpoint": self.resume,
            "holder": holder, "next_index": passed + 1, "next_broadcast": shared + 1,
        })  # fmt: skip
        if holder != 0:
            return line.shutdown(socket.SHUT_RDWR)
        for index in hello["uncommitted"]:
            if index in self._committed and not self.commits_held:
                self._say(line, self._committed[index])
        if self._wanted:
            self._say(line, {"type": "wanted", "what": self._wanted})

    def _holder_for(self, rank: int, hello: dict[str, Any]) -> int:
        """Returns 0 if the process that sent hello has the rank's place now. Otherwise returns the process that has
        it, or -1.
        """
        has = self._holders.get(rank, -1)
        if hello.get("place") == 2:
            return has if self._runs(has) else -1
        if has != hello["pid"] and self._runs(has):
            return has
        self._holders[rank] = hello["pid"]
        return 0

    @staticmethod
    def _runs(pid: int) -> bool:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def _pass(self, index: int) -> None:
        self._passed.add(index)
        files = {rank: frame["checkpoint"] for rank, frame in self._reports[index].items() if frame["checkpoint"]}
        directory = None
        if any(frame.get("checkpoint_error") for frame in self._reports[index].values()):
            files = {}
        if files:
            directory = f"checkpoint_{index:06}-a003"
            path = pathlib.Path(next(iter(files.values()))["path"])
            error = self.commit_error.get(index)
            if error is None:
                path = path.rename(self.storage / directory)
            self._committed[index] = {
                "type": "committed", "index": index, "directory": directory, "path": str(path), "error": error,
            }  # fmt: skip
            if not self.commits_held:
                self._announce(index)
        for line in self._lines.values():
            if index not in self.lose_answers_to:
                self._say(line, {"type": "reported", "index": index, "directory": directory})

    def _announce(self, index: int) -> None:
        for line in self._lines.values():
            self._say(line, self._committed[index])

    @staticmethod
    def _say(line: socket.socket, frame: dict[str, Any]) -> None:
        body = json.dumps(frame).encode()
        with contextlib.suppress(OSError):  # the worker has disconnected; it requests lost messages again
            line.sendall(struct.pack(">I", len(body)) + body)


def text_of(data: str) -> bytes:
    return base64.b64decode(data)
