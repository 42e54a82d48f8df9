"""`python -m tests.core --seed 1 --minutes 20`: random systems one after the other, until the CPU
time is up or one breaks a rule of the core; then the smallest script that shows it."""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import count
from typing import Final

from tests.core.life import Life
from tests.core.systems import Script, script, smallest

# The last lines of a trace where `require` raises: the one before them states the rule.
_OF_REQUIRE: Final = (", in require", ", in _break")


def broken(steps: Script) -> str:
    """What a script breaks, and where; empty for nothing."""
    try:
        Life().play(steps)
    except Exception:  # noqa: BLE001 a crash of the core is a finding like any other
        return traceback.format_exc()
    return ""


def kind(found: str) -> str:
    """The line that raised, or that states what is required: a smaller script is to break the same
    rule."""
    lines = [line for line in found.splitlines() if line.startswith("  File ")]
    return [line for line in lines if not line.endswith(_OF_REQUIRE)][-1]


def seeds(first: int, minutes: float) -> Iterator[int]:
    """One after the other while there is CPU time."""
    until_s = time.process_time() + 60 * minutes
    for seed in count(first):
        if time.process_time() >= until_s:
            return
        yield seed


def main() -> None:
    """Play, and report. Exits with 1 where a rule is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--minutes", type=float, default=1.0, help="of CPU")
    parser.add_argument("--no-shrink", action="store_true", help="print the script as it was drawn")
    asked = parser.parse_args()
    played = 0
    for seed in seeds(asked.seed, asked.minutes):
        steps, played = script(seed), played + 1
        if found := broken(steps):
            print(f"seed {seed} is broken, after {time.process_time():.1f} s of CPU")
            if not asked.no_shrink:
                steps = smallest(steps, lambda less: _is_as(found, less))
            print("\n".join(f"    {step}," for step in steps))
            sys.exit(broken(steps))
    spent_s = time.process_time()
    print(f"{played} systems from seed {asked.seed} on broke no rule in {spent_s:.0f} s of CPU")


def _is_as(found: str, steps: Script) -> bool:
    again = broken(steps)
    return bool(again) and kind(again) == kind(found)


if __name__ == "__main__":
    main()
