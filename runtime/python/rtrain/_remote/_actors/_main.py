"""The program of an actor's worker: python -m rtrain._remote._actors._main"""

from __future__ import annotations

import os

from rtrain._remote import _worker
from rtrain._remote._actors import _performers, _server
from rtrain._remote._options import RESTARTS


def main() -> int:
    channel = _worker.connect()
    if channel is None:
        if os.environ.get(RESTARTS):
            _server.stop_own_run()
        return 1
    return _performers.serve(_server.ActorServer(channel))


if __name__ == "__main__":
    _worker.end(main())
