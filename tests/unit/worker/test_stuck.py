"""Stacks of code that does not come back: only the user's part, and through all that a coroutine awaits."""

from __future__ import annotations

import asyncio
import threading

from tailrace.worker.stuck import stack_of_awaited, stack_of_thread

GO_ON = threading.Event()


async def innermost():
    await asyncio.sleep(3600)


async def outermost():
    await innermost()


def test_a_coroutine_is_followed_to_where_it_waits():
    async def look():
        awaited = outermost()
        task = asyncio.ensure_future(awaited)
        await asyncio.sleep(0)
        found = stack_of_awaited(awaited)
        task.cancel()
        return found

    found = asyncio.run(look())
    assert found.index("in outermost") < found.index("in innermost")


def waits(inside):
    inside.set()
    GO_ON.wait(60)


def test_a_thread_is_shown_from_the_users_function_on():
    inside = threading.Event()
    thread = threading.Thread(target=waits, args=(inside,))
    thread.start()
    assert inside.wait(60)
    found = stack_of_thread(thread.ident)
    GO_ON.set()
    thread.join()
    assert "in waits" in found.splitlines()[0]
    assert "_bootstrap" not in found


def test_a_thread_that_is_gone_has_no_stack():
    assert stack_of_thread(-1) == ""
