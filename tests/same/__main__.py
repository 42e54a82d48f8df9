"""`python -m tests.same`: plays what must stay equal and compares it with `recorded.json`.

Exits with 1 where something differs.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from tests.same.digests import Digests
from tests.same.plays import play, plays

RECORDED: Final = Path(__file__).with_name("recorded.json")
_SHOWN: Final = 10


def recorded() -> dict[str, Digests]:
    """What the committed file holds."""
    read = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: Digests(*digests) for name, digests in read.items()}


def record(found: Mapping[str, Digests]) -> None:
    """Write the file anew: what was not played keeps its digests."""
    merged = {**(recorded() if RECORDED.exists() else {}), **found}
    text = json.dumps({name: merged[name] for name in sorted(merged)}, indent=1)
    RECORDED.write_text(text + "\n", encoding="utf-8")


def played(names: Sequence[str], processes: int) -> Iterator[tuple[str, Digests]]:
    """Play them all, beside each other, with a progress bar."""
    with (
        Progress(console=Console(stderr=True)) as bar,
        ProcessPoolExecutor(processes, get_context("spawn")) as pool,
    ):
        task = bar.add_task("plays", total=len(names))
        for done in as_completed(futures := {pool.submit(play, name): name for name in names}):
            bar.advance(task)
            yield futures[done], done.result()


def differences(expected: Mapping[str, Digests], found: Mapping[str, Digests]) -> dict[str, str]:
    """What differs, by the name of the play, in words."""
    told = {}
    for name, digests in found.items():
        if name not in expected:
            told[name] = "is not recorded"
        elif digests.without_texts != expected[name].without_texts:
            told[name] = "decides or charges other things"
        elif digests.with_texts != expected[name].with_texts:
            told[name] = "says it in other words"
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write recorded.json anew")
    parser.add_argument("--ignore-texts", action="store_true", help="reasons may read otherwise")
    parser.add_argument(
        "--only", default="", help="plays whose names begin so, such as 'demo: seed 1,'"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    names = [name for name in plays() if name.startswith(asked.only)]
    found = dict(played(names, asked.processes))
    if asked.record:
        before = recorded() if RECORDED.exists() else {}
        print(f"{len(differences(before, found))} of {len(found)} differ from what was recorded")
        record(found)
        return 0
    return _compare(found, ignores_texts=asked.ignore_texts)


def _compare(found: Mapping[str, Digests], *, ignores_texts: bool) -> int:
    told = differences(recorded(), found)
    if ignores_texts:
        told = {name: what for name, what in told.items() if what != "says it in other words"}
    for name, what in [*told.items()][:_SHOWN]:
        print(f"{name}: {what}")
    for what, count in Counter(told.values()).items():
        print(f"{count} of {len(found)}: {what}")
    if not told:
        print(f"{len(found)} of {len(found)} are the same")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
