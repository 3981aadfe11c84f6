"""The ids and resources of a process: `get_runtime_context` and the class of its answer."""

from rtrain._cluster._context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
