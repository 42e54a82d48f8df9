"""How much time a decision takes on nodes that are given out in parts: python -m
lab.benchmarks.eurora_decisions [decisions]

Eurora's nodes and the jobs of all its instances, 50 to 1,000 of them queued on a machine that is
full. A decision is a pass after the running job with the next end has left; the jobs that start in
it are replaced in the queue, so that it stays as long as it is. Times are of the processor, so that
what else runs on the machine counts little. Needs the data (COPLACE_DATA).
"""

import sys
from heapq import heappop, heappush
from itertools import cycle, islice
from time import process_time

import numpy as np

from lab.papers.published_data import DATA
from lab.simulation.eurora import dispatcher_of
from lab.workloads.eurora import EuroraJob, EuroraMachine, read_jobs, read_machine

QUEUED = (50, 100, 200, 400, 700, 1_000)


def decisions_s(
    machine: EuroraMachine, jobs: list[EuroraJob], queued: int, decisions: int
) -> list[float]:
    """Measure how long each of some decisions took with so many jobs queued."""
    dispatcher, ends, waiting = dispatcher_of(machine, jobs), list[tuple[float, int]](), 0
    taken_s, now_s = list[float](), 0.0
    while len(taken_s) < decisions + 1:
        while waiting < queued:
            dispatcher.arrive()
            waiting += 1
        began_s = process_time()
        started = dispatcher.decide(now_s)
        taken_s.append(process_time() - began_s)
        for _, entry, _, _ in started:
            heappush(ends, (now_s + jobs[entry.arrival].runtime_s, entry.arrival))
        waiting -= len(started)
        now_s, ended = heappop(ends)
        dispatcher.end(0, ended)
    return taken_s[1:]  # the first one fills the machine


def main() -> None:
    """Print the median, the 99th percentile and the longest of each length of the queue."""
    decisions = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    folder = DATA / "eurora"
    machine = read_machine(folder / "nodes_64.csv")
    paths = sorted(folder.glob("*/*.log_crypt"))
    published = [job for path in paths for job in read_jobs(path, {})]
    print("queued  median ms  p99 ms  longest ms")
    for queued in QUEUED:
        jobs = list(islice(cycle(published), queued + 40 * decisions))
        taken_ms = 1e3 * np.array(decisions_s(machine, jobs, queued, decisions))
        median_ms, p99_ms = np.percentile(taken_ms, (50, 99))
        print(f"{queued:6d}  {median_ms:9.2f}  {p99_ms:6.2f}  {taken_ms.max():10.2f}")


if __name__ == "__main__":
    main()
