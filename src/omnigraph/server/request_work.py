"""Blocking work of a request, in a thread of the right pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from omnigraph import tracing
from omnigraph.server.calls import Call
from omnigraph.server.replies import Receive

_WATCH_AFTER_SECONDS = 0.02


async def in_thread(call: Call, work: Callable[[], Any]) -> Any:
    """Run in a thread of the pool for this kind of request.

    When the client goes away, `call.cancel` is set for a read, which then stops. An admitted write
    goes on to its end.
    """
    if tracing.is_on():
        work = partial(copy_context().run, work)
    running = asyncio.get_running_loop().run_in_executor(pool_of(call), work)
    done, _ = await asyncio.wait({running}, timeout=_WATCH_AFTER_SECONDS)
    if done:
        return running.result()
    if call.route.admission is not None:
        return await asyncio.shield(running)
    watch = asyncio.ensure_future(_gone(call.receive))
    try:
        await asyncio.wait({running, watch}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            call.cancel.set()
        return await asyncio.shield(running)
    finally:
        watch.cancel()


def pool_of(call: Call) -> ThreadPoolExecutor:
    state = call.state
    return state.writes if call.route.admission is not None else state.reads


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
