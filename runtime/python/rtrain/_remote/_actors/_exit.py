"""`exit_actor`: a method ends its own actor."""

from __future__ import annotations

from typing import NoReturn

from rtrain._lazy import public_in
from rtrain._remote import _current


class ActorExit(SystemExit):
    """Ends the worker of an actor with success, behind the answers that are ready."""


def exit_actor() -> NoReturn:
    """Ends the actor whose method calls this. Its run has succeeded, and it is not restarted. This call, and those that are not
    answered, raise ActorDiedError.

    Raises TypeError outside of an actor.
    """
    if _current.actor is None:
        raise TypeError("exit_actor() ends an actor, and this process is none: call it in a method of one")
    raise ActorExit(0)


public_in("rtrain.actor", exit_actor)
