"""`make starts`: every entry point on real servers in its empty state, with every value of every
setting: each comes up, lives through its first rounds and stops, or refuses by the setting's name.

Rows hold a value of each setting. Where a row is refused, the settings that are named are started
alone, and the row without them."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from deploy.local.servers import LocalServers
from tests.starts.api_server import empty_api_server
from tests.starts.declared import Value
from tests.starts.entry_points import EntryPoint, entry_points
from tests.starts.processes import Namespaces, Outcome, names_one, rows_of, start

_AT_ONCE: Final = 2


def main() -> None:
    """Start all, report, and exit with status 1 where one neither came up nor refused by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="entry points whose module begins so")
    only = parser.parse_args().only
    wanted = [each for each in entry_points() if each.module.startswith(only)]
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalServers(Path(folder) / "run") as servers,
        empty_api_server() as api_server,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        namespaces = Namespaces(
            servers.kafka_bootstrap, servers.redis_url, api_server, Path(folder)
        )
        found = list(pool.map(lambda each: list(_started(each, namespaces)), wanted))
    wrong = [problem for each in found for problem in each if problem]
    starts = sum(map(len, found))
    print(f"{len(wanted)} entry points, {starts} starts, {len(wrong)} wrong", end=" ")
    print(f"in {time.monotonic() - began_s:.0f} s")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


def _started(entry: EntryPoint, namespaces: Namespaces) -> Iterator[str]:
    """What is wrong with each start of an entry point; empty for nothing."""
    for number, values in enumerate(rows_of(entry)):
        row, alone = values, list[Value]()
        outcome = _outcome(entry, namespaces, row)
        while outcome.problem and (named := names_one(outcome, row)):
            yield ""
            alone += named
            row = [each for each in row if each not in named]
            outcome = _outcome(entry, namespaces, row)
        yield _told(f"{entry.module} row {number}", outcome.problem, outcome.said)
        for value in alone:
            yield _alone(entry, namespaces, [value])


def _alone(entry: EntryPoint, namespaces: Namespaces, tried: Sequence[Value]) -> str:
    outcome = _outcome(entry, namespaces, tried)
    if not outcome.problem or names_one(outcome, tried):
        print(f"{entry.module} {tried[0].variable}={tried[0].text}: {outcome.said[:200] or 'up'}")
        return ""
    return _told(f"{entry.module} {tried}", outcome.problem, outcome.said)


def _outcome(entry: EntryPoint, namespaces: Namespaces, tried: Sequence[Value]) -> Outcome:
    environment = namespaces.make(entry.told)
    try:
        return start(entry, environment, tried)
    finally:
        namespaces.free(environment)


def _told(what: str, problem: str, said: str) -> str:
    print(f"{what}: {problem or 'up'} {said[:300]}", flush=True)
    return f"{what}: {problem}: {said}" if problem else ""


if __name__ == "__main__":
    main()
