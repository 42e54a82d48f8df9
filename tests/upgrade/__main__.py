"""Upgrade a region with jobs in flight: `python -m tests.upgrade COMMIT [--jobs N] [--seed N]`."""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from lab.demo.options import DemoOptions
from tests.upgrade.earlier import earlier_release
from tests.upgrade.story import upgrade


def main() -> None:
    """Play it to its end. Raises UpgradeError or WrongAccountsError."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="what is upgraded from")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="up") as scratch:
        options = DemoOptions(seed=given.seed, jobs=given.jobs)
        console.print(f"building the wheels of {given.commit}, and an environment of them ...")
        earlier = earlier_release(given.commit, Path(scratch))
        upgrade(options, earlier, Path(scratch) / "run", console)


if __name__ == "__main__":
    main()
