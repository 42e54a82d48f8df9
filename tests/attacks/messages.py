"""Hostile messages of every type to ingest and all stages, in process.

`python -m tests.attacks.messages --records 200000 --seed 1`
"""

import argparse
import sys
import warnings
from typing import Final

from tests.support.hostile_run import HostileRun

_ROUNDS: Final = 25
_MESSAGES: Final = 40


def main() -> None:
    """Print what was taken and refused; end at the first fault with the seed that shows it. What
    NumPy warns of, a figure that is no number, is a defect like any other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    warnings.simplefilter("error", RuntimeWarning)
    # Each thousand is a run of its own.
    for seed in range(told.seed, told.seed + -(-told.records // (_ROUNDS * _MESSAGES))):
        run = HostileRun(seed)
        run.play(rounds=_ROUNDS, messages=_MESSAGES)
        faults = run.faults()
        print(f"seed {seed}: {run.taken} taken, {run.refused.total()} refused,", end=" ")
        print(f"{run.decided} decided, {len(faults)} faults", run.refused.most_common(5))
        if faults:
            sys.exit("\n".join(faults[:5]))


if __name__ == "__main__":
    main()
