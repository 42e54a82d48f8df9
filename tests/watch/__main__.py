"""`python -m tests.watch`: the example with a thousand jobs, while the service that it watches, the
example and Kafka are killed: each job is started once, each decision obeyed once."""

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.local.servers import LocalServers
from tests.watch.region import ExampleRun, WatchedRegion


def main() -> None:
    """Exit with a message unless all is so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        TemporaryDirectory() as folder,
        LocalServers(Path(folder, "run")) as servers,
        WatchedRegion(servers, "watch-kills") as region,
    ):
        problem = play(region, Path(folder), given.jobs, given.kills, given.seed)
    sys.exit(problem or None)


def play(region: WatchedRegion, folder: Path, jobs: int, kills: int, seed: int) -> str:
    """Return what is wrong, empty where nothing is."""
    draw, begun_s = random.Random(seed), time.monotonic()
    with ExampleRun(region, jobs, folder) as run:
        doers = [region.kill_watch, run.kill, region.kill_kafka]
        for number, at in enumerate(sorted(draw.sample(range(1, jobs), kills))):
            run.until_started(at)
            kill = doers[number % len(doers)]
            print(f"{len(run.started())} jobs have started: {kill.__name__}", flush=True)
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
