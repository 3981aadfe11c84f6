"""Handles Ctrl-C in a driver. The first one requests a stop of the run, the third one ends the driver at once. With
RTRAIN_TRAIN_ON_INTERRUPT=detach the driver detaches instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType

from rtrain import _own_folders
from rtrain.train._values import _names

_EXIT_INTERRUPTED = 130


class Detached(KeyboardInterrupt):
    """Raised by Ctrl-C with RTRAIN_TRAIN_ON_INTERRUPT=detach. The run continues."""


@dataclass
class Interrupts:
    """Handles Ctrl-C. `what`: the name in messages ("the sweep"); `come_back`: how to follow it again; `by_hand`: how
    to end it. `stop` sends a request to the head and does not wait. `answered` is set when the head has answered that
    request.
    """

    say: Callable[[str], None]
    what: str
    come_back: str
    by_hand: Callable[[], str]
    stop: Callable[[], None]
    count: int = 0
    answered: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Handles Ctrl-C during the block. Does nothing outside of the main thread, since Python delivers signals
        there alone.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._taken)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _taken(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if _names.setting("ON_INTERRUPT", "stop") == "detach":
            self.say(f"detached; {self.what} goes on. {self.come_back}")
            raise Detached()
        if self.count == 1:
            self.say(f"stopping {self.what}; press Ctrl-C twice more to leave it at once")
            self.stop()
        elif self.count >= 3:
            if self.answered.is_set():
                self.say(f"left; {self.what} is being stopped")
            else:
                self.say(f"left; the head has not answered that {self.what} is to be stopped, so it may go on. {self.by_hand()}")
            _own_folders.remove_all()
            os._exit(_EXIT_INTERRUPTED)
