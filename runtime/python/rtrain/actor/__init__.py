"""`exit_actor`, and the classes of actors: what `rtrain.remote` makes of a class, its handles and their methods."""

from rtrain._remote._actors._exit import exit_actor
from rtrain._remote._actors._handle import ActorHandle, ActorMethod
from rtrain._remote._api import RemoteClass

ActorClass = RemoteClass

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]
