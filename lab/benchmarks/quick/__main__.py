"""`python -m lab.benchmarks.quick`: what a job and a round cost, beside figures of before.

Instructions are counted, by valgrind: they are nearly the same on any machine, however busy.
"""

import argparse
import sys

from rich.console import Console
from rich.progress import track
from rich.table import Table

from lab.benchmarks.quick.counted import COUNTED
from lab.benchmarks.quick.figures import MOST_WORSE, commit, committed, measure, worse


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="these are the figures from now on")
    asked = parser.parse_args()
    before = {} if asked.record else committed()
    found: dict[str, float] = {}
    for name in track(COUNTED, "counted", console=Console(stderr=True)):
        found |= measure([name])
    table = Table("", "before", "now", "of before", title="instructions in millions")
    for name, value in found.items():
        share = f"{100 * value / before[name]:.1f} %" if name in before else ""
        table.add_row(name, f"{before.get(name, 0):,.2f}", f"{value:,.2f}", share)
    Console().print(table)
    if asked.record:
        commit(found)
    elif too_much := worse(found, before):
        sys.exit(f"more than {MOST_WORSE:.0%} worse than before: {', '.join(too_much)}")


if __name__ == "__main__":
    main()
