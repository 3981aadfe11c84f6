"""Sends exceptions to other processes. The text always arrives; the object arrives if it can be unpickled there.

Pickling and unpickling an exception run code of its class. That code may raise anything and may never return, and an
`__init__` that formats its text formats it twice. So each exception is pickled and unpickled as a test before it is sent.
"""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

WITHIN_S = 10.0  # time limit for the code of an exception's class
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

T = TypeVar("T")


class NotCarried(Exception):
    """The exception cannot be pickled or unpickled. The text says why."""


def within(call: Callable[[], T]) -> T:
    """Returns the result of `call`. Raises NotCarried if the call raises anything or takes longer than WITHIN_S."""
    values: list[T] = []
    whys: list[str] = []

    def run() -> None:
        try:
            values.append(call())
        except BaseException as error:
            whys.append(in_one_line(error))

    thread = threading.Thread(target=run, daemon=True, name="rtrain exception")
    try:
        thread.start()
    except RuntimeError:  # no thread can be started, without memory or at the end of the interpreter
        run()
    else:
        thread.join(WITHIN_S)
    if values:
        return values[0]
    raise NotCarried(whys[0] if whys else f"its class took longer than {WITHIN_S:g} s")


def dumped(error: BaseException, dump: Callable[[Any], bytes]) -> bytes:
    """Returns a pickle of `error`, made by `dump`. Unpickling it gives an exception of the same class with the same text.

    If the class's own way of pickling fails in that, the pickle contains its arguments and attributes and bypasses its
    `__init__`. Raises NotCarried, with the error of the class's own way, if that fails as well.
    """
    try:
        return within(lambda: _tried(error, dump(error)))
    except NotCarried as fault:
        try:
            return within(lambda: _tried(error, dump(_Parts(error))))
        except NotCarried:
            raise fault from None


def loaded(content: bytes) -> BaseException:
    """Returns the exception of a pickle that `dumped` returned in another process. Raises NotCarried if that fails here."""

    def tried() -> BaseException:
        error = pickle.loads(content)
        if not isinstance(error, BaseException):
            raise TypeError(f"its pickle gives a {type(error).__name__}")
        return error

    return within(tried)


def in_one_line(error: BaseException) -> str:
    """Returns the class and the text of `error`; the class alone if `str(error)` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def remade(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """Makes an exception from its parts, without its `__init__`. Pickles refer to this function by name."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class _Parts:
    """Stands for an exception in a pickle: there it is the exception, made again by `remade`."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        return remade, (type(self._error), self._error.args, dict(self._error.__dict__))


def _tried(error: BaseException, content: bytes) -> bytes:
    """Returns the pickle. Raises TypeError or ValueError if unpickling it gives another exception than `error`."""
    again = pickle.loads(content)
    if type(again) is not type(error):
        raise TypeError(f"its pickle gives a {type(again).__name__}")
    if _text(again) != _text(error):
        raise ValueError(f"its pickle gives another text: {str(again)[:200]}")
    return content


def _text(error: BaseException) -> str:
    """Returns the text without addresses of objects, which differ between an object and its copy."""
    return _ADDRESS.sub("0x", str(error))
