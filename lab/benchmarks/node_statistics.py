"""Samples of nodes a CPU second, before and behind the keyed stage: python -m
lab.benchmarks.node_statistics [nodes]

Each node sends a record of a minute, a sample a second, in each of ten rounds. Records are decoded,
checked, handled and committed with their state as in operation, in memory: no broker's time is in
it. Workers are processes, each with its share of the Kafka partitions. CPU seconds, so that other
work on the machine changes little.
"""

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from lab.benchmarks.system.telemetry import SAMPLES, record
from lab.workloads.clusters import clusters
from services.prediction.app import stages
from services.prediction.node_statistics import INPUT, OUTPUT
from shared.catalogue.codec import Codec, is_barrier
from shared.catalogue.record import NewRecord
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.stages.stage import Stage

ROUNDS: Final = 10
START_US: Final = 1_767_225_600_000_000
KAFKA_PARTITIONS: Final = 12
_TOPICS: Final = Topics(kafka_partitions=KAFKA_PARTITIONS)


def both() -> tuple[Stage, Stage]:
    """Return the keyed stage and the one behind it."""
    nodes, single = stages(Settings(rounds=RoundSource.CLOCK, kafka_partitions=KAFKA_PARTITIONS))
    return nodes, single


def sent(nodes: int, partitions: Iterable[int]) -> list[NewRecord]:
    """Return what agents of nodes send whose records lie in these Kafka partitions."""
    codec, cluster, wanted = Codec(_TOPICS), clusters()[0], set(partitions)
    found = (
        codec.encode(record(cluster, node, START_US + 60_000_000 * number))
        for number in range(1, ROUNDS + 1)
        for node in range(nodes)
    )
    return [each for each in found if each.partition.kafka_partition in wanted]


def cpu_s(stage: Stage, log: InMemoryLog) -> float:
    """Measure the CPU time of a stage that reads all there is and ends its round."""
    runtime = EmbeddedRuntime(log, [stage], codec=Codec(_TOPICS))
    began_s = time.process_time()
    runtime.run_until_quiet()
    runtime.close_rounds(stage.name, START_US + 60_000_000 * (ROUNDS + 1))
    return time.process_time() - began_s


def worked(nodes: int, partitions: Iterable[int]) -> tuple[int, float, float]:
    """Measure records of one worker of the keyed stage, its CPU time, and that of the single stage
    for what it published."""
    log, (keyed, single) = InMemoryLog(), both()
    records = sent(nodes, partitions)
    log.append(records)
    keyed_s = cpu_s(keyed, log)
    found = (log.read(each, 0, 1 << 62) for each in _TOPICS.partitions(OUTPUT))
    told = sum(not is_barrier(each) for partition in found for each in partition)
    assert told == len(records), f"{told} of {len(records)} records of {INPUT} were published"
    return len(records), keyed_s, cpu_s(single, log)


def main(nodes: int = 200) -> None:
    """Print a row for one worker and one for two."""
    print("| workers | samples | CPU s of each | samples a CPU second, all | single stage, CPU s |")
    for workers in (1, 2):
        shares = [range(number, KAFKA_PARTITIONS, workers) for number in range(workers)]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(worked, [nodes] * workers, shares))
        each = ", ".join(f"{keyed_s:.2f}" for _, keyed_s, _ in found)
        rate = sum(count * SAMPLES / keyed_s for count, keyed_s, _ in found)
        total = sum(count for count, _, _ in found) * SAMPLES
        print(f"| {workers} | {total} | {each} | {rate:.0f} | {sum(s for *_, s in found):.2f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
