"""`python -m lab.benchmarks.by_turns OTHER`: the CPU time of this checkout next to another one's,
measured by turns, so that a slow hour is slow for both."""

import argparse
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT: Final = Path(__file__).parents[3]
_SCRIPT: Final = Path(__file__).with_name("measures.py")
# Two-sided 95 % of Student's t by pairs less one; from the last on that of the normal is near.
_T: Final = {1: 12.7, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
_T_OF_MANY: Final = 2.2


def measured(checkout: Path, names: Sequence[str]) -> dict[str, float]:
    """Measure CPU seconds of each measure in a checkout that is set up. Raises
    CalledProcessError."""
    folders = [checkout, *(checkout / each for each in ("client", "generated", "agent"))]
    ran = subprocess.run(
        [checkout / ".venv" / "bin" / "python", _SCRIPT, *names],
        cwd=checkout,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "COPLACE_DATA": str(ROOT / os.environ.get("COPLACE_DATA", "../shared/data")),
            "OMP_NUM_THREADS": "1",
        },
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of paired ratios, and its 95 % interval."""
    logs = [log(each) for each in ratios]
    half = _T.get(len(logs) - 1, _T_OF_MANY) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs) - half), exp(fmean(logs)), exp(fmean(logs) + half)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of another commit, set up")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[], help="measures, by name")
    asked = parser.parse_args()
    ratios = defaultdict(list)
    for number in track(range(asked.pairs), "pairs", console=Console(stderr=True)):
        # Who comes first changes, too.
        order = (asked.other, ROOT) if number % 2 else (ROOT, asked.other)
        found = {checkout: measured(checkout, asked.only) for checkout in order}
        for name, cpu_s in found[ROOT].items():
            ratios[name].append(cpu_s / found[asked.other][name])
    table = Table("CPU time of the other's", "least", "mean", "most", title=f"{asked.pairs} pairs")
    for name, each in ratios.items():
        table.add_row(name, *(f"{100 * bound:.1f} %" for bound in interval(each)))
    Console().print(table)


if __name__ == "__main__":
    main()
