"""What Slurm's plugins write is word that something came."""

import asyncio
import os
from pathlib import Path

from services.slurm.adapters.word import PluginsWord


def test_word_is_heard_at_once_and_once(tmp_path: Path) -> None:
    submitted, ended = tmp_path / "submitted", tmp_path / "ended"
    ended.mkdir()
    word = PluginsWord(submitted, ended)

    async def play() -> None:
        assert not await word.wait(0.0)
        submitted.write_text("\n")
        assert await word.wait(60.0)
        word.heard()
        assert not await word.wait(0.01)
        (ended / "1-2-3.json").write_text("{}")
        os.utime(ended, ns=(1, 1))  # within the same tick of a file system's clock
        assert await word.wait(60.0)

    asyncio.run(asyncio.wait_for(play(), 10))


def test_word_that_comes_during_the_wait_ends_it(tmp_path: Path) -> None:
    word = PluginsWord(tmp_path / "submitted")

    async def play() -> bool:
        waiting = asyncio.create_task(word.wait(60.0))
        await asyncio.sleep(0.01)
        (tmp_path / "submitted").write_text("\n")
        return await waiting

    assert asyncio.run(asyncio.wait_for(play(), 10))


def test_where_nothing_is_left_a_wait_is_as_long_as_it_says(tmp_path: Path) -> None:
    assert not asyncio.run(PluginsWord(tmp_path / "none" / "submitted").wait(0.2))
