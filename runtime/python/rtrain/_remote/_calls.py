"""One call of a driver: its message to a worker, and the refs that the answer settles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rtrain import _exception_pickle
from rtrain._remote import _values
from rtrain._remote._channel import Part
from rtrain._remote._generator import Stream
from rtrain._remote._refs import ObjectRef, settled


@dataclass
class Call:
    """One message to a worker, and the refs that its answer settles."""

    op: str  # function, construct, method
    what: str  # text for messages, such as "train()"
    target: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    refs: list[ObjectRef]
    number: int = 0
    stream: Stream | None = None  # gets the items of a generator, which come before the answer
    retries: int = 0  # how often the call is repeated when its worker is lost; -1: without end
    repeated_for: tuple[type[BaseException], ...] = ()  # exceptions of the method after which it is repeated, too
    lent: list[Any] = field(default_factory=list)  # handles among the arguments

    def resolved(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with the values of the refs among them; raises what they raise."""
        here = tuple(argument._get(None) if isinstance(argument, ObjectRef) else argument for argument in self.arguments)
        named = {
            name: argument._get(None) if isinstance(argument, ObjectRef) else argument for name, argument in self.named.items()
        }
        return self.target, here, named


def settle(call: Call, counts: list[int], parts: list[bytearray], carried: list[Any]) -> None:
    at = 0
    for ref, count in zip(call.refs, counts, strict=True):
        own_parts: list[Part] = list(parts[at : at + count])
        ref._kept = carried
        settled(ref, parts=own_parts)
        at += count


def unpacked_error(head: dict[str, Any], parts: list[bytearray]) -> tuple[str, BaseException | None]:
    """Returns the text of a worker's exception, and the exception; None instead if it cannot be unpickled here."""
    sent_text = head.get("text")  # version 0.1.0 sends the text within the parts only
    try:
        text, cause = _exception_pickle.within(lambda: _values.unpack(parts))
    except _exception_pickle.NotCarried as why:
        return f"{sent_text or 'it raised an exception'}\n(the exception itself cannot be read here: {why})", None
    return str(sent_text or text), cause if isinstance(cause, BaseException) else None
