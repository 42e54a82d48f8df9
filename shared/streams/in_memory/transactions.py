"""The in-memory side of a unit: its transactions and the state that they leave."""

from collections.abc import Mapping

from shared.catalogue.record import NewRecord, TopicPartition
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.stages.hooks import CommitObserver
from shared.streams.stages.provenance import Provenance
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit


class MemoryTransactions:
    """Commits what a unit did; making one ends whoever wrote for the unit before."""

    def __init__(self, log: InMemoryLog, stage: Stage, number: int, step: CommitObserver) -> None:
        self._log = log
        self._group = stage.name
        self._changelog = TopicPartition(stage.changelog, number)
        self._producer = log.open_producer(f"{stage.name}.{number}")
        self._step = step
        self.provenance = Provenance()

    def commit(self, commit: Commit) -> None:
        """Write outputs, state changes, positions and the state's provenance, all or nothing.

        Raises FencedError when the unit was taken over.
        """
        self._log.begin(self._producer)
        if commit.outputs:
            self._log.send(self._producer, commit.outputs)
            self._step.reached("outputs sent")
        after = self.provenance.after(commit.positions, commit.last_read, self._ends(commit))
        self._log.send(self._producer, self._changes({**commit.changelog, **after.change()}))
        self._step.reached("changelog sent")
        moved = self.provenance.to_commit(commit.positions)
        self._log.send_positions(self._producer, self._group, moved, after.commits)
        self._step.reached("offsets sent")
        self._step.reached("committing")
        self._log.end(self._producer)
        self.provenance = after

    def _changes(self, changelog: Mapping[str, bytes | None]) -> list[NewRecord]:
        return [NewRecord(self._changelog, key.encode(), value) for key, value in changelog.items()]

    def _ends(self, commit: Commit) -> Mapping[TopicPartition, int]:
        """Return where the log ends behind what was sent to the stage's topics."""
        written = {new.partition for new in commit.outputs if self.provenance.has(new.partition)}
        return {partition: self._log.end_offset(partition) for partition in written}


def restore(log: InMemoryLog, changelog: TopicPartition) -> Mapping[str, bytes]:
    """Restore the state that committed transactions left at a partition of a changelog."""
    latest = {record.key.decode(): record.value for record in log.read(changelog, 0, 1 << 62)}
    return {key: value for key, value in latest.items() if value is not None}
