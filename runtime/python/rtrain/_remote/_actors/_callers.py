"""The processes that call an actor: its maker, and holders of a handle that was sent to them. Each has one connection."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rtrain._remote._actors._borrowed import held
from rtrain._remote._channel import Channel, ChannelError, Part
from rtrain._remote._feeds import Feed

Message = tuple[dict[str, Any], list[bytearray]]  # its head, and the parts behind it


class Caller:
    """One connection. Its thread hands each message to `use`."""

    def __init__(self, channel: Channel, is_maker: bool) -> None:
        self.channel = channel
        self.is_maker = is_maker
        self.feeds: dict[int, Feed] = {}
        self._lent: dict[str, Any] = {}  # handles in answers: their actors live as long as the connection
        self._lock = threading.Lock()
        self._order = threading.Lock()  # held while an answer is sent
        self._unanswered = 0
        self.ended = False  # it makes no more calls

    def read(self, use: Callable[[Caller, Message], None], gone: Callable[[Caller], None]) -> None:
        """Receives messages until the connection ends, and calls `gone` then."""
        try:
            while True:
                parts = self.channel.receive()
                head: dict[str, Any] = pickle.loads(parts[0])
                if head["op"] in ("taken", "close"):
                    feed = self.feeds.get(head["id"])
                    if feed is not None:
                        feed.notice(head)
                    continue
                if head["op"] == "end":
                    self.ended = True
                    self._close_behind_the_last()
                if "id" in head:
                    with self._lock:
                        self._unanswered += 1
                if "ahead" in head:
                    head["lent"] = []
                    self.feeds[head["id"]] = Feed(head, self.channel.send, head["lent"])
                use(self, (head, parts[1:]))
        except ChannelError:
            for feed in list(self.feeds.values()):
                feed.notice({"op": "close"})
            self._lent.clear()
            gone(self)

    def lend(self, handles: Sequence[Any]) -> None:
        self._lent.update({handle.actor_id: handle for handle in handles})

    def answer(self, head: dict[str, Any], parts: Sequence[Part]) -> None:
        """Sends the answer to a call. Its head lists the handles that this process still has, as of the moment of sending."""
        self.feeds.pop(head["id"], None)
        with contextlib.suppress(ChannelError), self._order:  # the thread that receives gets the same error
            self.channel.send([pickle.dumps({**head, "held": held()}), *parts])
        with self._lock:
            self._unanswered -= 1
        self._close_behind_the_last()

    def tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ChannelError):
            self.channel.send([pickle.dumps(message)])

    def _close_behind_the_last(self) -> None:
        """Closes the connection of a holder once all its calls are answered and it makes no more."""
        with self._lock:
            over = self.ended and not self._unanswered and not self.is_maker
        if over:
            self.channel.close()
