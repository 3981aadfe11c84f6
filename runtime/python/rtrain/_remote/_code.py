"""The working_dir of `init(runtime_env=)` on its way to remote functions and actors: their workers start in a copy of it."""

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
        """Returns the hash of the folder's archive, which the head has then; "" where `init` names no folder.

        PackingError where it cannot be packed.
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
