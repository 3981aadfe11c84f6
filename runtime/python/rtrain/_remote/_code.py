"""Sends the working_dir of `init(runtime_env=)` to remote functions and actors: their workers start in a copy of it."""

from __future__ import annotations

import pathlib
import threading

from rtrain import _where
from rtrain._http import Head
from rtrain.train._archive._packed import packed


class WorkingDir:
    """Packs and uploads the folder once for each process."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}

    def digest(self) -> str:
        """Uploads the folder's archive to the head and returns its hash; "" if `init` names no folder.

        Raises PackingError if the folder cannot be packed.
        """
        given = _where.runtime_env().get("working_dir")
        if not given:
            return ""
        with self._lock:
            if str(given) not in self._digests:
                archive = packed(pathlib.Path(str(given)).expanduser().resolve(), named=True)
                self._head.upload_blob(archive.content)
                self._digests[str(given)] = archive.digest
            return self._digests[str(given)]
