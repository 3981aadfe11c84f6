"""In the first attempt rank 0 fails because the rendezvous port is in use, as a store does that binds too late. Later
attempts succeed.
"""

import os
import pathlib
import socket
import sys

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1
port = int(os.environ["MASTER_PORT"])
with open(pathlib.Path(sys.argv[1]) / "ports", "a") as ports:
    print(port, file=ports)
stranger, store = socket.socket(), socket.socket()
if attempt == 1:
    stranger.bind(("", port))
    stranger.listen()
store.bind(("", port))
