"""Fails at once, with a cause of 256 KiB."""

import os

from rtrain.train._session import _worker
from rtrain.train._session._library import check, library

check(library().rtw_fail(_worker.handle("main"), b"x" * (256 << 10)), "main")
os._exit(1)
