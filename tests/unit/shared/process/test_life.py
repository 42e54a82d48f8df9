"""What a process works on ends with it, and what nobody expected ends the process."""

import asyncio
from typing import Any

import pytest

from shared.process import life
from shared.process.life import Process


def _process() -> Process:
    neither: Any = None
    return Process(neither, neither)


def test_work_is_cancelled_when_the_process_shall_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[object] = []
    monkeypatch.setattr(life, "end_process", lambda *given: ends.append(given))
    was_cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    async def play() -> None:
        process = _process()
        asyncio.get_running_loop().call_later(0.01, process.stop.set)
        await process.run_until_stopped("played", work())
        await asyncio.wait_for(was_cancelled.wait(), 10)

    asyncio.run(play())
    assert ends == []


def test_what_the_work_uses_is_closed_after_the_work_has_ended() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(3):  # as groups of tasks do, the work ends a few turns of the loop later
                await asyncio.sleep(0)
            seen.append("work ended")

    async def play() -> None:
        process = _process()
        asyncio.get_running_loop().call_later(0.01, process.stop.set)
        await process.run_until_stopped("played", work())
        seen.append("closed")

    asyncio.run(play())
    assert seen == ["work ended", "closed"]


def test_an_error_that_nobody_expected_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[str, BaseException]] = []
    process, error = _process(), KeyError("lost")

    def end(name: str, found: BaseException) -> None:
        ends.append((name, found))
        process.stop.set()

    monkeypatch.setattr(life, "end_process", end)

    async def work() -> None:
        raise error

    asyncio.run(process.run_until_stopped("played", work()))
    assert ends == [("played", error)]
