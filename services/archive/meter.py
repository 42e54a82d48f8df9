"""What the archive counts."""

from collections.abc import Callable, Sequence
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from shared.archive.writing import Written


class ArchiveMeter:
    """What was written, by topic, and what waits."""

    def __init__(self, meter: Meter, topics: Sequence[str]) -> None:
        self._meter = meter
        self._records = meter.create_counter(
            "archive_records", description="Records that are in files, by topic"
        )
        self._files = meter.create_counter("archive_files", description="Full files, by topic")
        self._bytes = meter.create_counter(
            "archive_bytes", description="Bytes written, those of tails too, by topic"
        )
        self._removed = meter.create_counter(
            "archive_removed_files", description="Files that retention removed, by topic"
        )
        for topic in topics:
            for counter in (self._records, self._files, self._bytes, self._removed):
                counter.add(0, {"topic": topic})

    def observe(self, waiting: Callable[[], int], behind: Callable[[], int]) -> None:
        """Ask, whenever the metrics are read, for these."""
        for name, description, value in (
            ("archive_waiting_records", "Records that were read and are in no file yet", waiting),
            ("archive_behind_offsets", "Offsets of the topics that were not read yet", behind),
        ):
            self._meter.create_observable_gauge(
                name, [partial(_observed, value)], description=description
            )

    def wrote(self, topic: str, written: Written) -> None:
        """Count what was written."""
        self._records.add(written.records, {"topic": topic})
        self._files.add(written.files, {"topic": topic})
        self._bytes.add(written.bytes, {"topic": topic})

    def removed(self, topic: str, files: int) -> None:
        """Count files that were removed."""
        self._removed.add(files, {"topic": topic})


def _observed(value: Callable[[], int], _options: CallbackOptions) -> Sequence[Observation]:
    return [Observation(value())]
