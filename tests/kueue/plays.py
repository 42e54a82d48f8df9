"""How a play on real API servers and Kueues is asked for, and run."""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

Play = Callable[[argparse.Namespace, Path, AsyncExitStack], Awaitable[int]]


def play_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options that all plays have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--programs", type=Path, required=True, help="of Kubernetes")
    parser.add_argument("--kueue", type=Path, required=True, help="its program and sources")
    parser.add_argument("--within-s", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for logs")
    return parser


def run_play(play: Play, arguments: argparse.Namespace) -> int:
    """Run a play in a folder of its own, or in the one that is kept; return its exit code."""
    os.environ["PATH"] = f"{arguments.programs}{os.pathsep}{os.environ['PATH']}"

    async def played(folder: Path) -> int:
        async with AsyncExitStack() as stack:
            return await play(arguments, folder, stack)

    with tempfile.TemporaryDirectory(prefix="kueue-") as made:
        return asyncio.run(played(arguments.keep or Path(made)))
