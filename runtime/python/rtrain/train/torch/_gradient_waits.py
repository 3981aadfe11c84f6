"""Measures how long a rank waits for the gradients of others at the end of its backward pass.

A rank's own part ends with its last gradient. DistributedDataParallel then waits until the gradients of all ranks
are added up. The slowest rank waits least. Autograd calls back at the end of each backward pass, once before and
once after DistributedDataParallel's own callback; the time is that between the two. The measurement uses no
communication hook, which belongs to the user, and changes no number.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from rtrain import _waits

_EVENTS_MOST = 64  # most pairs of GPU events that are not complete yet
_OUTPUTS_MOST = 8


def measured(model: nn.parallel.DistributedDataParallel) -> nn.parallel.DistributedDataParallel:
    """Returns the model. In a worker, its backward passes are measured."""
    tell = _waits.barrier_wait()
    if tell is not None:
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        model.register_forward_hook(GradientWaits(_Gpu(device, tell) if device.type == "cuda" else _Cpu(tell)))
    return model


class GradientWaits:
    """A forward hook that measures the following backward pass. A copied or unpickled hook does nothing, and needs
    no rtrain.
    """

    def __init__(self, clock: _Cpu | _Gpu) -> None:
        self._clock = clock
        self._under_way = False

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")

    def __call__(self, model: Any, _inputs: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not model.require_backward_grad_sync:
            return
        self._under_way = False  # the flag may remain from an interrupted backward pass
        for tensor in _with_gradients(output):
            tensor.register_hook(self._begun)  # type: ignore[no-untyped-call]

    def _begun(self, _gradient: Any) -> None:
        if not self._under_way:
            self._under_way = True
            _at_the_end(self._own_part_done)

    def _own_part_done(self) -> None:
        self._clock.begin()
        _at_the_end(self._all_done)

    def _all_done(self) -> None:
        self._under_way = False
        self._clock.end()


def _at_the_end(callback: Callable[[], None]) -> None:
    """Queues a callback for the end of the current backward pass. It runs after the callbacks that were queued before."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def _with_gradients(output: Any) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for tensor in _tensors(output, 0):
        if tensor.grad_fn is not None:  # only the result of an operation gets a hook, since a leaf tensor would keep it
            tensors.append(tensor)
        if len(tensors) == _OUTPUTS_MOST:
            break
    return tensors


def _tensors(output: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif depth < 3 and isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value, depth + 1)
    elif depth < 3 and isinstance(output, list | tuple):
        for value in output:
            yield from _tensors(value, depth + 1)


class _Cpu:
    """Measures on the CPU, where the process itself waits."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._begun_ns = 0

    def begin(self) -> None:
        self._begun_ns = time.perf_counter_ns()

    def end(self) -> None:
        self._tell((time.perf_counter_ns() - self._begun_ns) // 1000)


class _Gpu:
    """Measures on a GPU, whose stream waits later than this process. Events are put into the stream and read once they
    are complete.
    """

    def __init__(self, device: torch.device, tell: Callable[[int], None]) -> None:
        self._device = device
        self._tell = tell
        self._begun: Any = None
        self._marks: deque[tuple[Any, Any]] = deque()

    def begin(self) -> None:
        self._begun = None if torch.cuda.is_current_stream_capturing() else self._mark()

    def end(self) -> None:
        if self._begun is None or torch.cuda.is_current_stream_capturing():
            return
        self._marks.append((self._begun, self._mark()))
        while self._marks and self._marks[0][1].query():
            begun, ended = self._marks.popleft()
            self._tell(int(begun.elapsed_time(ended) * 1000))
        while len(self._marks) > _EVENTS_MOST:
            self._marks.popleft()

    def _mark(self) -> Any:
        mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        mark.record(torch.cuda.current_stream(self._device))
        return mark
