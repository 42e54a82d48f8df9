"""Figures of what a job and a round cost, those of before, and which are worse."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from lab.benchmarks.quick.counted import COUNTED

FIGURES: Final = Path(__file__).with_name("figures.json")
# A figure that is so much worse than before fails.
MOST_WORSE: Final = 0.15
_VALGRIND: Final = "valgrind", "--tool=callgrind", "--instr-atstart=no"
_COUNTED: Final = re.compile(r"Collected : (\d+)")

Figures = Mapping[str, float]


def measure(names: Iterable[str] = COUNTED) -> Figures:
    """Return the figures of these: instructions in millions, and what is written to the log."""
    found: dict[str, float] = {}
    for name in names:
        run = subprocess.run(
            [
                *_VALGRIND,
                f"--callgrind-out-file={os.devnull}",
                *(sys.executable, "-m", "lab.benchmarks.quick.counted", name),
            ],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONHASHSEED": "0",
                "OMP_NUM_THREADS": "1",
            },
            check=True,
            capture_output=True,
            text=True,
        )
        found[f"instructions of {name}"] = counted(run.stderr) / COUNTED[name][1] / 1e6
        found |= json.loads(run.stdout.splitlines()[-1])
    return found


def counted(said: str) -> int:
    """Return the instructions that valgrind says it counted. Raises ValueError."""
    found = _COUNTED.search(said)
    if found is None:
        raise ValueError(f"valgrind did not say what it counted: {said[-400:]!r}")
    return int(found[1])


def worse(found: Figures, before: Figures) -> list[str]:
    """Return the figures that are worse than before by more than they may be, and those that one
    of both lacks."""
    lacking = sorted(found.keys() ^ before.keys())
    there = (name for name in found if name in before)
    return lacking + [name for name in there if found[name] > before[name] * (1 + MOST_WORSE)]


def committed() -> Figures:
    """Read the figures of before."""
    found: dict[str, float] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def commit(found: Figures) -> None:
    """Let these be the figures of before from now on."""
    text = json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2)
    FIGURES.write_text(f"{text}\n", encoding="utf-8")
