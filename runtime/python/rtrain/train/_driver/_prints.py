"""Prints the output of workers on the driver's terminal, with rank and node before each line. Equal lines of several
ranks are one line.

A line that is overwritten, such as a progress bar, has states. A terminal shows the newest state in its last line.
Elsewhere each state is a line.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time

_FOLD_S = 0.3  # seconds within which equal lines of several ranks are joined
RANKS_SHOWN = 16


class Printer:
    """Receives the lines of workers from one thread and writes them in another one. `close` writes the remaining lines."""

    def __init__(self, nodes: dict[int, str] | None = None) -> None:
        self.nodes: dict[int, str] = nodes if nodes is not None else {}
        self._waiting: dict[tuple[str, str], list[int]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._states: dict[tuple[int, str], str] = {}  # newest state of a line that has not ended, by rank and stream
        self._is_state_shown = False
        self._lock = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._write_ripe, daemon=True, name="rtrain-prints")
        self._thread.start()

    @property
    def states_ms(self) -> int:
        """The least time between two states of a rank, in ms."""
        return 100 if _on_a_terminal() else 1000

    def line(self, rank: int, text: str, stream: str) -> None:
        with self._lock:
            if self._states.pop((rank, stream), None) != text or _on_a_terminal():
                self._add(rank, text, stream)

    def state(self, rank: int, text: str, stream: str) -> None:
        with self._lock:
            self._states[rank, stream] = text
            if _on_a_terminal():
                self._hide_state()
                self._draw_state()
            else:
                self._add(rank, text, stream)

    def _add(self, rank: int, text: str, stream: str) -> None:
        key = (stream, text)
        if rank in self._waiting.get(key, []):
            self._flush(before=None)
        self._waiting.setdefault(key, []).append(rank)
        self._since.setdefault(key, time.monotonic())
        self._lock.notify()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._states.clear()
            self._flush(before=None)
            self._lock.notify()
        self._thread.join()

    def _write_ripe(self) -> None:
        with self._lock:
            while not self._closed:
                self._lock.wait(None if not self._waiting else _FOLD_S / 2)
                if self._waiting:
                    self._flush(before=time.monotonic() - _FOLD_S)

    def _flush(self, before: float | None) -> None:
        """Writes waiting lines in the order of their arrival. A line is not written before an earlier one."""
        self._hide_state()
        for key in list(self._waiting):
            if before is not None and self._since[key] > before:
                break
            ranks = sorted(self._waiting.pop(key))
            del self._since[key]
            out = sys.stderr if key[0] == "err" else sys.stdout
            # The line is written at once, because `print` writes the newline separately, and other threads write too.
            out.write(f"({self._who(ranks)}) {key[1]}\n")
            out.flush()
        self._draw_state()

    def _hide_state(self) -> None:
        if self._is_state_shown:
            self._is_state_shown = False
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def _draw_state(self) -> None:
        """Draws the newest state of the lowest rank only, since states of several ranks in turn would be unreadable."""
        if not self._states or not _on_a_terminal():
            return
        rank, stream = min(self._states)
        more = f" (and {len(self._states) - 1} more)" if len(self._states) > 1 else ""
        room = shutil.get_terminal_size().columns - 1 - len(more)
        sys.stdout.write(f"({self._who([rank])}) {self._states[rank, stream]}"[: max(room, 0)] + more)
        sys.stdout.flush()
        self._is_state_shown = True

    def _who(self, ranks: list[int]) -> str:
        nodes = {self.nodes.get(rank, "") for rank in ranks}
        node = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)} nodes"
        return f"{ranks_text(ranks)}, {node}" if node else ranks_text(ranks)


def _on_a_terminal() -> bool:
    return bool(getattr(sys.stdout, "isatty", bool)())  # sys.stdout may be an object of the program without this method


def ranks_text(ranks: list[int]) -> str:
    """Returns a text such as `rank 3` or `ranks 0-2,5`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    pieces: list[str] = []
    start = last = ranks[0]
    for rank in [*ranks[1:], None]:
        if rank is not None and rank == last + 1:
            last = rank
            continue
        pieces.append(str(start) if start == last else f"{start}-{last}")
        if rank is not None:
            start = last = rank
    return f"ranks {','.join(pieces)}"
