"""`python -m lab.benchmarks.archive`: a month of jobs through the writer of the archive, without
Kafka, and read back: `make bench-archive JOBS=1000000 OUT=out`."""

import argparse
import resource
import shutil
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from lab.benchmarks.archive.month import Month, templates
from lab.emulator.facts import EPOCH_US
from shared.archive.reading import read_archive
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.writing import PartitionArchive

_AT_ONCE: Final = 500


def measure(jobs: int, demo_jobs: int, folder: Path) -> None:
    """Write the month, read it back, and print what that took."""
    storage = LocalFolder(folder)
    archives: dict[tuple[str, int], PartitionArchive] = {}
    waiting: dict[tuple[str, int], list[ArchivedRecord]] = defaultdict(list)
    records, raw = Counter[str](), Counter[str]()
    write_s: dict[str, float] = defaultdict(float)

    def flush(place: tuple[str, int], *, is_last: bool = False) -> None:
        began_s = time.process_time()
        if place not in archives:
            archives[place] = PartitionArchive.resume(storage, *place, "00", 0)
        archives[place].add(waiting.pop(place, ()))
        archives[place].write(with_tail=is_last)
        write_s[place[0]] += time.process_time() - began_s

    for record in Month(jobs, templates(demo_jobs), EPOCH_US).records():
        place = record.topic, record.kafka_partition
        waiting[place].append(record)
        records[record.topic] += 1
        raw[record.topic] += record.size_bytes
        if len(waiting[place]) == _AT_ONCE:
            flush(place)
    for place in sorted({*waiting, *archives}):
        flush(place, is_last=True)
    print(f"{jobs:,} jobs; CPU seconds of writing and of reading back, without Kafka")
    for topic in sorted(records):
        of_topic = [each for (name, _), each in archives.items() if name == topic]
        entries = [entry for each in of_topic for entry in each.index.entries]
        size = sum(entry.bytes for entry in entries)
        began_s = time.process_time()
        places = [place for place in archives if place[0] == topic]
        read = sum(1 for place in places for _ in read_archive(str(folder), *place))
        read_s = time.process_time() - began_s
        assert read == records[topic]
        print(
            f"{topic}: {read:,} records of {raw[topic] / 1e6:,.0f} MB in {len(entries)} files of "
            f"{size / 1e6:,.0f} MB, {size / jobs:.0f} bytes a job, {size / read:.0f} a record; "
            f"written in {write_s[topic]:.0f} s, read in {read_s:.0f} s"
        )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"all: {sum(write_s.values()):.0f} s of writing; at most {most:.0f} MiB of memory")


def main() -> None:
    """Measure, in a folder that is deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--demo-jobs", type=int, default=1_000)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    folder = options.out / "archive-of-a-month"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        measure(options.jobs, options.demo_jobs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
