"""EAMC under both disciplines, on seeds that nothing was chosen on."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from lab.papers.placement.claims import OURS
from lab.papers.placement.rows import BASE, MIN_ENERGY, MIN_RUNTIME, NOMINAL, Grid
from lab.papers.placement.trials import AS_AUTHORS, AS_IS, Block, summary_of
from lab.simulation.metrics import Summary
from lab.simulation.sweep import Setup

# No document and no test has played these before.
FIRST_SEED: Final = 3001
ROWS: Final = (BASE, MIN_RUNTIME, NOMINAL, MIN_ENERGY, *OURS)
_SUMMARY: Final = TypeAdapter(Summary)
Known = dict[str, Summary]


def blocks_of(seeds: int) -> list[Block]:
    """Return what is played: all rows under EASY, and under Slurm's discipline."""
    every = tuple(range(FIRST_SEED, FIRST_SEED + seeds))
    return [Block(ROWS, every, variation) for variation in (AS_IS, AS_AUTHORS)]


def kept(path: Path) -> Known:
    """Return what an earlier call has played, by name. Raises OSError for a file that cannot be
    read, ValueError for one with other lines."""
    if not path.is_file():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {name: _SUMMARY.validate_python(summary) for name, summary in lines}


def line_of(name: str, summary: Summary) -> str:
    """Return a trial as the file has it."""
    return f"{json.dumps([name, _SUMMARY.dump_python(summary)])}\n"


def play_missing(
    setup: Setup,
    blocks: Sequence[Block],
    path: Path,
    known: Known,
    workers: int | None,
    done: Callable[[int], None],
) -> list[Grid]:
    """Play what is not known yet, seed by seed, and add a line each to the file; the results of all
    blocks. `done` gets how many trials are done."""
    trials = [trial for block in blocks for trial in block.trials()]
    missing = sorted((t for t in trials if t.name not in known), key=lambda t: t.case.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        path.open("a" if known else "w", encoding="utf-8") as file,
    ):
        found = zip(missing, pool.map(partial(summary_of, setup), missing), strict=True)
        for number, (trial, summary) in enumerate(found, len(trials) - len(missing) + 1):
            file.write(line_of(trial.name, summary))
            file.flush()
            known[trial.name] = summary
            done(number)
    return [block.grid([known[trial.name] for trial in block.trials()]) for block in blocks]
