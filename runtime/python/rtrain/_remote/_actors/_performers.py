"""How an actor's calls are carried out: one after the other, in threads, or in an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rtrain._remote._actors._callers import Caller, Message
from rtrain._remote._actors._server import ActorServer

ASYNC_CONCURRENCY = 1000  # calls of an actor with `async def` methods, unless max_concurrency is given


def serve(server: ActorServer) -> int:
    """Serves the object until its maker has let it go. Returns the exit status."""
    first = server.first_message()
    if first is None:
        return 0
    performer = _performer(server, first[0])
    if not performer.construct(first):
        return 1
    performer.perform_all()
    server.close()
    return 0


def _performer(server: ActorServer, head: dict[str, Any]) -> InOrder | InThreads | InEventLoop:
    """Returns the performer that the message which constructs the object asks for."""
    concurrency = head["concurrency"]
    if head["is_async"]:
        return InEventLoop(server, concurrency or ASYNC_CONCURRENCY)
    return InThreads(server, concurrency) if concurrency and concurrency > 1 else InOrder(server)


class InOrder:
    """Carries out one call after the other, in the main thread."""

    def __init__(self, server: ActorServer) -> None:
        self._server = server

    def construct(self, message: Message) -> bool:
        """Returns false if the class raises. The maker gets the answer in any case."""
        return self._perform(self._server.maker, message)

    def perform_all(self) -> None:
        while (call := self._server.next_call()) is not None:
            self._perform(*call)

    def _perform(self, caller: Caller, message: Message) -> bool:
        head = message[0]
        try:
            value = self._server.call(message)
            feed = caller.feeds.get(head["id"])
            self._server.answer(caller, head, value if feed is None else feed.send_items(value))
        except BaseException as error:
            self._server.failed(caller, head, error)
            return False
        return True


class InThreads(InOrder):
    """Carries out up to `concurrency` calls at a time, each in a thread. Their order is that in which threads begin them."""

    def __init__(self, server: ActorServer, concurrency: int) -> None:
        super().__init__(server)
        self._threads = ThreadPoolExecutor(concurrency, "rtrain call")

    def perform_all(self) -> None:
        while (call := self._server.next_call()) is not None:
            caller, message = call
            self._threads.submit(contextvars.copy_context().run, self._perform, caller, message)
        self._threads.shutdown(wait=True)


class InEventLoop:
    """Carries out calls in an event loop, which also runs the constructor. A thread sends the answers of each caller."""

    def __init__(self, server: ActorServer, concurrency: int) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._places = asyncio.Semaphore(concurrency)
        self._senders: dict[Caller, ThreadPoolExecutor] = {}
        self._tasks: set[asyncio.Task[bool]] = set()

    def construct(self, message: Message) -> bool:
        """Returns false if the class raises. The maker gets the answer in any case."""
        return self._loop.run_until_complete(self._perform(self._server.maker, message))

    def perform_all(self) -> None:
        self._loop.run_until_complete(self._perform_all())

    async def _perform_all(self) -> None:
        with ThreadPoolExecutor(1, "rtrain next call") as waiter:
            while (call := await self._loop.run_in_executor(waiter, self._server.next_call)) is not None:
                task = self._loop.create_task(self._in_place(*call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _in_place(self, caller: Caller, message: Message) -> bool:
        async with self._places:
            return await self._perform(caller, message)

    async def _perform(self, caller: Caller, message: Message) -> bool:
        head = message[0]
        try:
            value = self._server.call(message)
            if inspect.isawaitable(value):
                value = await value
            feed = caller.feeds.get(head["id"])
            if feed is not None:
                value = await feed.send_all_async(value)
            await self._send(caller, self._server.answer, caller, head, value)
        except asyncio.CancelledError as error:
            await self._send(caller, self._server.failed, caller, head, RuntimeError(f"the call was cancelled: {error}"))
            return False
        except BaseException as error:
            await self._send(caller, self._server.failed, caller, head, error)
            return False
        return True

    async def _send(self, caller: Caller, send: Any, *arguments: Any) -> None:
        """Sends in another thread: a caller that does not read holds up its own answers alone."""
        sender = self._senders.get(caller)
        if sender is None:
            sender = self._senders[caller] = ThreadPoolExecutor(1, "rtrain answers")
        await self._loop.run_in_executor(sender, send, *arguments)
