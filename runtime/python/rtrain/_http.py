"""A small client of the head: HTTPS pinned to the cluster's CA, JSON, server-sent events that resume after an interruption,
blobs. It uses the standard library only.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import pathlib
import select
import ssl
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rtrain import _files
from rtrain._settings import ConfigurationError, Place, current_place

SERVER_NAME = "rtrain-head"
_CONNECT_S = 5.0
_ANSWER_S = 120.0
_STREAM_SILENCE_S = 65.0  # the head sends a line every 20 s
_AWAY_S = 600.0  # time after which an unreachable head is given up
_AGAIN_S = 0.5
_BUSY_S = 60.0  # maximum time for which a request is repeated while the head answers "retry later"
_PIECE = 1 << 20
_T = TypeVar("_T")
SESSION = uuid.uuid4().hex  # id of this process; the head groups the runs of one driver by it


class HeadError(RuntimeError):
    """The head refused the request, or was unreachable. `code` is one of the API's error codes; `next` says what to do."""

    def __init__(self, code: str, message: str, what_next: str = "", problems: list[dict[str, Any]] | None = None) -> None:
        lines = [message]
        for problem in problems or []:
            lines.append(f"  {problem.get('path', '')}: {problem.get('message', '')}")
        if what_next:
            lines.append(f"next: {what_next}")
        super().__init__("\n".join(lines))
        self.code = code
        self.message = message
        self.next = what_next
        self.problems = problems or []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.next, self.problems)


class NotFound(HeadError):
    pass


class Conflict(HeadError):
    pass


class Invalid(HeadError):
    pass


class Unauthorised(HeadError):
    pass


class Unplaceable(HeadError):
    pass


class Unreachable(HeadError):
    """No answer arrived, or the server had a certificate of another cluster."""


class Busy(HeadError):
    """The head refused the request for now and accepts it after `wait_s` seconds (429 with Retry-After)."""

    wait_s: float = 0.0


_KINDS: dict[str, type[HeadError]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "invalid": Invalid,
    "unauthorised": Unauthorised,
    "unplaceable": Unplaceable,
    "unreachable": Unreachable,
}
_CODES = {400: "usage", 401: "unauthorised", 403: "unauthorised", 404: "not_found", 409: "conflict", 422: "invalid"}


class _Waits:
    """The waits of one request to a busy head: each as long as Retry-After in the answer, bounded in sum."""

    def __init__(self) -> None:
        self._deadline = 0.0

    def after(self, busy: Busy) -> None:
        now = time.monotonic()
        if not self._deadline:
            self._deadline = now + _BUSY_S
            if now + busy.wait_s <= self._deadline:
                text = f"rtrain: the head refused for now: {busy.message}; asked again in {busy.wait_s:.0f} s"
                print(f"{text}, for {_BUSY_S:.0f} s at most", file=sys.stderr)
        if now + busy.wait_s > self._deadline:
            raise busy
        time.sleep(busy.wait_s)


@dataclass(frozen=True)
class StreamEvent:
    data: Any  # decoded JSON of `data:`
    name: str = ""
    id: str = ""


class _Connection(http.client.HTTPSConnection):
    """Dials any address, and holds the certificate against the one name that heads have."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, timeout: float) -> None:
        super().__init__(host, port, timeout=_CONNECT_S, context=context)
        self._tls = context
        self._answer_timeout = timeout

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=SERVER_NAME)
        self.sock.settimeout(self._answer_timeout)


@dataclass
class Head:
    """The head of one cluster. Several threads may use it; each request has a connection for itself."""

    place: Place
    _idle: list[_Connection] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tls: ssl.SSLContext | None = None
    patience_s: float = 0.0  # how long requests to an unreachable head are repeated

    @classmethod
    def current(cls, context: str | None = None) -> Head:
        """Returns the head that the environment or the context file names. Raises HeadError if there is none."""
        try:
            place = current_place(context)
        except (ConfigurationError, OSError) as error:
            raise HeadError("usage", str(error), "rtrain config show --origin") from error
        if place is None:
            raise Unreachable(
                "unreachable",
                "no cluster is known: there is no context and no RTRAIN_ADDRESS",
                "rtrain up (a cluster on this machine), or rtrain context add NAME --address HOST:PORT --token T --ca FILE",
            )
        return cls(place)

    # -- requests -----------------------------------------------------------------------------------------------------
    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        return self._json("GET", path, query)

    def post(self, path: str, body: object = None, query: Mapping[str, object] | None = None) -> Any:
        return self._json("POST", path, query, {} if body is None else body)

    def put(self, path: str, content: bytes) -> None:
        self._request("PUT", path, None, content, {})

    def delete(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        return self._json("DELETE", path, query)

    def items(self, path: str, query: Mapping[str, object] | None = None) -> list[Any]:
        """Returns the items of all pages of a list."""
        items: list[Any] = []
        cursor = None
        while True:
            page = self.get(path, {**(query or {}), **({"cursor": cursor} if cursor else {})})
            items += page["items"]
            following = page.get("next_cursor")
            if not following or following == cursor:
                return items
            cursor = following

    def exists(self, path: str) -> bool:
        try:
            self._request("HEAD", path, None, None, {})
        except NotFound:
            return False
        return True

    def upload_blob(self, content: bytes | str | os.PathLike[str]) -> str:
        """Stores bytes, or a file, under its SHA-256, once. The hash in hex."""
        if isinstance(content, bytes):
            digest = hashlib.sha256(content).hexdigest()
            if not self.exists(f"/v1/blobs/{digest}"):
                self._request("PUT", f"/v1/blobs/{digest}", None, content, {})
            return digest
        digest = file_digest(content)
        if not self.exists(f"/v1/blobs/{digest}"):
            size = pathlib.Path(content).stat().st_size
            with pathlib.Path(content).open("rb") as stream:
                self._request("PUT", f"/v1/blobs/{digest}", None, stream, {"Content-Length": str(size)})
        return digest

    def download(self, path: str, to_file: str | os.PathLike[str], query: Mapping[str, object] | None = None) -> str:
        """Writes the answer's bytes to `to_file` (aside first, then in one move). Their SHA-256 in hex."""
        return self._patiently(lambda: self._download_once(path, pathlib.Path(to_file), query))

    def _download_once(self, path: str, target: pathlib.Path, query: Mapping[str, object] | None) -> str:
        digest = hashlib.sha256()
        connection = self._connection()
        try:
            answer = self._send(connection, "GET", path, query, None, {})
            self._check(answer, "GET", path)
            with _files.replacing(target) as out:
                while piece := self._piece(answer, path):
                    digest.update(piece)
                    out.write(piece)
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return digest.hexdigest()

    def _piece(self, answer: http.client.HTTPResponse, path: str) -> bytes:
        try:
            piece = answer.read(_PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(path, error) from error
        if not piece and answer.length:
            raise self._unreachable(path, ConnectionError(f"the answer ended {answer.length} bytes early"))
        return piece

    def content(self, path: str, query: Mapping[str, object] | None = None) -> bytes:
        return self._request("GET", path, query, None, {})

    # -- streams ------------------------------------------------------------------------------------------------------
    def follow(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        until: Callable[[], bool] = lambda: False,
        away: Callable[[HeadError | None], None] = lambda _: None,
        last_id: str = "",
    ) -> Iterator[StreamEvent]:
        """Yields the events of a stream including the final `end`, or until `until()` is true. After an interruption the
        stream resumes behind the last `id`. `away` is called with the error while the head does not answer, and with None
        when it answers again.
        """
        away_since: float | None = None
        waits = _Waits()
        while not until():
            try:
                for event in self._stream(path, query, last_id, until):
                    if away_since is not None:
                        away(None)
                    away_since = None
                    last_id = event.id or last_id
                    waits = _Waits()
                    yield event
                    if event.name == "end":
                        return
            except Busy as busy:
                waits.after(busy)
                continue
            except Unreachable as error:
                if away_since is None:
                    away(error)
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _AWAY_S:
                    raise
            if not until():
                time.sleep(0.5)

    def _stream(
        self, path: str, query: Mapping[str, object] | None, last_id: str, until: Callable[[], bool]
    ) -> Iterator[StreamEvent]:
        connection = self._connection(_STREAM_SILENCE_S, fresh=True)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        try:
            answer = self._send(connection, "GET", path, {**(query or {}), "follow": "true"}, None, headers)
            self._check(answer, "GET", path)
            name, number, data = "", "", []
            while not until():
                line = self._line(answer, path)
                if line is None:
                    return
                word, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if word == "data":
                    data.append(value)
                elif word == "event":
                    name = value
                elif word == "id":
                    number = value
                elif not line and (data or name):
                    yield StreamEvent(json.loads("\n".join(data) or "null"), name, number)
                    name, number, data = "", "", []
        finally:
            connection.close()

    def _line(self, answer: http.client.HTTPResponse, path: str) -> str | None:
        try:
            line = answer.readline()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(path, error) from error
        return line.decode("utf-8", "replace").rstrip("\r\n") if line else None

    # -- one request --------------------------------------------------------------------------------------------------
    def _json(self, method: str, path: str, query: Mapping[str, object] | None, body: object = None) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        text = self._request(method, path, query, None if body is None else json.dumps(body).encode(), headers)
        try:
            return json.loads(text or b"{}")
        except ValueError as error:
            raise HeadError("internal", f"the head answered {method} {path} with something that is not JSON") from error

    def _request(self, method: str, path: str, query: Mapping[str, object] | None, body: Any, headers: dict[str, str]) -> bytes:
        if not (body is None or isinstance(body, bytes)):  # a file, which must be rewound before a second try
            start = body.tell()

            def send() -> bytes:
                body.seek(start)
                return self._request_once(method, path, query, body, headers)

            return self._when_free(send)
        return self._patiently(lambda: self._request_once(method, path, query, body, headers))

    def _when_free(self, attempt: Callable[[], _T]) -> _T:
        waits = _Waits()
        while True:
            try:
                return attempt()
            except Busy as busy:
                waits.after(busy)

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return self._when_free(attempt)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_S)

    def _request_once(
        self, method: str, path: str, query: Mapping[str, object] | None, body: Any, headers: dict[str, str]
    ) -> bytes:
        connection = self._connection()
        again = connection.sock is not None and (body is None or isinstance(body, bytes)) and method != "POST"
        try:
            try:
                answer = self._send(connection, method, path, query, body, headers)
            except Unreachable:
                if not again:
                    raise
                connection.close()  # the head has closed the idle connection
                answer = self._send(connection, method, path, query, body, headers)
            text = self._check(answer, method, path) or answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(path, error) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return text

    def _send(
        self,
        connection: _Connection,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Any,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        query_texts = {key: _query_text(value) for key, value in (query or {}).items() if value is not None}
        target = path + ("?" + urllib.parse.urlencode(query_texts) if query_texts else "")
        try:
            connection.request(method, target, body, {"Authorization": f"Bearer {self.place.token}", **headers})
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(path, error) from error

    def _check(self, answer: http.client.HTTPResponse, method: str, path: str) -> bytes:
        if answer.status < 400:
            return b""
        text = answer.read()
        try:
            body = json.loads(text or b"{}")
        except ValueError:
            body = {}
        code = body.get("code") or _CODES.get(answer.status, "internal")
        message = body.get("message") or f"the head at {self.place.address} answered {method} {path} with HTTP {answer.status}"
        wait = answer.getheader("Retry-After", "")
        if answer.status == 429 and wait.isdecimal() and len(wait) < 6:
            busy = Busy(code, message, body.get("next") or "")
            busy.wait_s = max(1.0, float(wait))
            raise busy
        raise _KINDS.get(code, HeadError)(code, message, body.get("next") or "", body.get("problems") or [])

    def _unreachable(self, path: str, error: Exception) -> Unreachable:
        why = str(error) or type(error).__name__
        return Unreachable(
            "unreachable",
            f"the head at {self.place.address} cannot be reached ({path.split('?', maxsplit=1)[0]}): {why}",
            "rtrain status; rtrain head start; or another address in RTRAIN_ADDRESS or the context",
        )

    def _connection(self, timeout: float = _ANSWER_S, *, fresh: bool = False) -> _Connection:
        with self._lock:
            while self._idle and not fresh:
                connection = self._idle.pop()
                if not _closed_there(connection):
                    return connection
                connection.close()
            if self._tls is None:
                self._tls = _tls(self.place)
        host, port = self.place.host_port
        return _Connection(host, port, self._tls, timeout)

    def _keep(self, connection: _Connection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < 4:
                self._idle.append(connection)
            else:
                connection.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Head, (self.place,)


def _closed_there(connection: _Connection) -> bool:
    """Returns true if the other side has closed the idle connection. The head closes connections after 75 s without a
    request.
    """
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def part(text: str) -> str:
    """Quotes one component of a path."""
    return urllib.parse.quote(text, safe="")


def file_digest(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    with pathlib.Path(path).open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _query_text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _tls(place: Place) -> ssl.SSLContext:
    if not place.ca:
        raise Unauthorised(
            "unauthorised",
            f"the CA of the cluster at {place.address} is not known, so it cannot be told from an impostor",
            "set RTRAIN_CA to the CA file (on the head: <data>/ca.crt), or use a context",
        )
    return ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=place.ca)
