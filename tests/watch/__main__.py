"""`python -m tests.watch`: an example with a thousand jobs, while it, Kafka, each process and its
connections are killed in turn: each job is started once, each decision obeyed once."""

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.local.kafka.broker import KAFKA
from deploy.local.servers import LocalServers
from tests.watch.examples import LANGUAGES
from tests.watch.region import ExampleRun, WatchedRegion

_PROCESSES: Final = ("watch", KAFKA, "ingest", "placement")


def main() -> None:
    """Exit with a message unless all is so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--example", choices=LANGUAGES, default="python")
    given = parser.parse_args()
    with (
        TemporaryDirectory() as folder,
        LocalServers(Path(folder, "run")) as servers,
        WatchedRegion(servers, "watch-kills") as region,
    ):
        problem = play(*(region, Path(folder), given.jobs, given.kills, given.seed, given.example))
    sys.exit(problem or None)


def play(
    region: WatchedRegion, folder: Path, jobs: int, kills: int, seed: int, language: str
) -> str:
    """Return what is wrong, empty where nothing is."""
    draw, begun_s = random.Random(seed), time.monotonic()
    with ExampleRun(region, jobs, folder, language) as run:
        doers: list[tuple[str, Callable[[], object]]] = [
            *((name, partial(region.kill, name)) for name in _PROCESSES),
            *(("the example", run.kill), ("the connections", run.cut)),
        ]
        for number, at in enumerate(sorted(draw.sample(range(1, jobs), kills))):
            run.until_started(at)
            name, kill = doers[number % len(doers)]
            print(f"{len(run.started())} jobs have started: kill {name}", flush=True)
            kill()
        run.until_ended(jobs)
        started, obeyed = run.started(), [(e.job_id, e.grant, e.verdict) for e in run.obeyed()]
    took_s = time.monotonic() - begun_s
    print(f"{len(started)} starts of {jobs} jobs over {kills} kills in {took_s:.0f} s")
    if len(started) != jobs or len({*started}) != jobs:
        return f"{jobs} jobs, {len({*started})} of them started, {len(started)} times"
    return "" if len({*obeyed}) == len(obeyed) else "a decision was obeyed twice"


if __name__ == "__main__":
    main()
