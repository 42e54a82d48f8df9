"""Each object is looked at once, however often that was asked for."""

import asyncio

from shared.kubernetes.work_list import WorkList


async def test_what_was_touched_is_looked_at_in_order_and_once() -> None:
    seen: list[str] = []

    async def look(key: str) -> None:
        seen.append(key)
        if seen == ["a"]:
            work.touch("c")

    work = WorkList(look)
    for key in ("a", "b", "a"):
        work.touch(key)
    await work.work_off()
    assert seen == ["a", "b", "c"]


async def test_what_is_urgent_is_looked_at_first() -> None:
    seen: list[str] = []

    async def look(key: str) -> None:
        seen.append(key)

    work = WorkList(look)
    for key in ("a", "b", "c"):
        work.touch(key)
    work.touch("c", is_urgent=True)
    await work.work_off()
    assert seen == ["c", "a", "b"]


async def test_no_worker_waits_for_an_object_that_another_one_looks_at() -> None:
    seen: list[str] = []
    goes_on = asyncio.Event()

    async def look(key: str) -> None:
        seen.append(key)
        if seen == ["a"]:
            await goes_on.wait()

    work = WorkList(look)
    work.touch("a")
    first = asyncio.create_task(work.work_off())
    await asyncio.sleep(0)
    work.touch("a")
    work.touch("b")
    await asyncio.wait_for(work.work_off(), 5)
    assert seen == ["a", "b"]
    goes_on.set()
    await first
    assert seen == ["a", "b", "a"]


async def test_the_earliest_of_later_looks_counts() -> None:
    seen = asyncio.Event()

    async def look(key: str) -> None:
        seen.set()

    work = WorkList(look)
    work.later("a", 60)
    work.later("a", 0.01)
    work.later("a", 60)
    working = asyncio.create_task(work.work())
    await asyncio.wait_for(seen.wait(), 5)
    working.cancel()
