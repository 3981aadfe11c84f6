"""Lets holders of an actor's handle connect to its worker. They present the certificate of the actor's run."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

from rtrain._http import Head, HeadError, part
from rtrain._remote._actors._borrowed import ADDRESS, HOLDERS
from rtrain._remote._channel import Channel, accept_all
from rtrain._remote._cipher import Identity

_PUBLISHED_WITHIN_S = 120.0
_AGAIN_S = 1.0


class HoldersListener:
    """Listens once it was opened. `use` gets each channel, in a thread of its own."""

    def __init__(self, identity: Identity, use: Callable[[Channel], None]) -> None:
        self._identity = identity
        self._use = use
        self._lock = threading.Lock()
        self.address = ""

    def open(self) -> bool:
        """Begins to listen. Returns false if it does so already."""
        with self._lock:
            if self.address:
                return False
            here = os.environ.get("MASTER_ADDR") or "127.0.0.1"
            family = socket.AF_INET6 if ":" in here else socket.AF_INET
            listener = socket.create_server((here, 0), family=family, backlog=64)
            self.address = f"{here}:{listener.getsockname()[1]}"
        known = {HOLDERS: self._identity}
        threading.Thread(
            target=accept_all,
            args=(listener, known.get, lambda _, channel: self._use(channel)),
            daemon=True,
            name="rtrain holders",
        ).start()
        return True

    def publish(self) -> None:
        """Writes the address into a value of the run, where holders of the handle read it."""
        head, pause = Head.current(), threading.Event()
        value = json.dumps({"address": self.address, "attempt": int(os.environ["RTRAIN_ATTEMPT"].rpartition("-a")[2])}).encode()
        deadline = time.monotonic() + _PUBLISHED_WITHIN_S
        while True:
            try:
                head.put(f"/v1/runs/{part(os.environ['RTRAIN_RUN_ID'])}/values/{ADDRESS}", value)
                return
            except HeadError:
                if time.monotonic() > deadline:
                    raise
                pause.wait(_AGAIN_S)
