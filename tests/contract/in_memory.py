"""The contract's view of the log in memory."""

import os
import uuid
from collections.abc import Callable, Iterable, Mapping

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.facts import facts_in_memory
from shared.streams.in_memory.log import FencedError
from shared.streams.in_memory.transactions import restore
from shared.streams.stages.consistency import (
    Inconsistency,
    InconsistentError,
    UnitPartitions,
    check_at_start,
)
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.provenance import split_state
from tests.contract.backends import Plan
from tests.support.deaths import SIMULATED, KilledError
from tests.support.messaging import CODEC, counting
from tests.support.operated_log import OperatedLog

_IDLE_STEPS = 100


SIMULATED.add(os.getpid())


class MemoryWorker:
    """A runtime over the log in memory."""

    def __init__(self, backend: "MemoryBackend", plan: Plan) -> None:
        self._backend = backend
        self._plan = plan
        self._is_at_work = False
        self._is_due = bool(plan.point)
        self._member = uuid.uuid4().hex
        self.ended = False
        self.last_words = ""
        self._runtime = EmbeddedRuntime(
            backend.log,
            [plan.runs()],
            codec=CODEC,
            member=self._member,
            hooks=Hooks(step=self),
        )

    def step(self) -> bool:
        """One step; what it raises ends the worker."""
        try:
            self._runtime.check()
            return self._runtime.step()
        except InconsistentError as error:
            # It stays up and looks again.
            self.last_words = str(error)
            return False
        except (FencedError, LookupError, ArithmeticError, KilledError) as error:
            self.last_words = repr(error)
            self.ended = True
            self._expel()
            return True

    def reached(self, point: str) -> None:
        """Called by the driver. A stall is over when the others have done all there is to do. What
        is kept before any work does not count."""
        self._is_at_work |= point == "received"
        if not (self._is_at_work and self._is_due and point == self._plan.point):
            return
        self._is_due = False
        if self._plan.action == "kill":
            raise KilledError
        self._expel()
        self._backend.run_all_but(self)

    def stop(self) -> None:
        """Leave the group."""
        self.ended = True
        self._runtime.leave()

    def resume(self) -> None:
        """Nothing to do: see `reached`."""

    def _expel(self) -> None:
        self._backend.log.leave(self._plan.stage, self._member)


class MemoryProducer:
    """A producer of the log in memory."""

    def __init__(self, log: OperatedLog, transactional_id: str) -> None:
        self._log = log
        self._epoch = log.open_producer(transactional_id)

    def begin(self) -> None:
        """Begin a transaction."""
        self._log.begin(self._epoch)

    def send(self, records: Iterable[NewRecord]) -> None:
        """Send."""
        self._log.send(self._epoch, records)

    def send_positions(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Move positions."""
        self._log.send_positions(self._epoch, group, positions)

    def commit(self) -> None:
        """Commit."""
        self._log.end(self._epoch)

    def abort(self) -> None:
        """Abort."""
        self._log.end(self._epoch, is_committed=False)


class MemoryBackend:
    """The log in memory."""

    def __init__(self) -> None:
        self.log = OperatedLog()
        self._workers: list[MemoryWorker] = []

    def append(self, records: Iterable[NewRecord]) -> None:
        """Append."""
        self.log.append(records)

    def read(self, partition: TopicPartition) -> list[Record]:
        """All records."""
        return list(self.log.read(partition, 0, 1 << 62))

    def producer(self, transactional_id: str) -> MemoryProducer:
        """Take a transactional id over."""
        return MemoryProducer(self.log, transactional_id)

    def position(self, group: str, partition: TopicPartition) -> int:
        """Where a group reads on."""
        return self.log.position(group, partition)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Forget the oldest records."""
        self.log.delete_before(partition, offset)

    def recreate(self, topic: str) -> None:
        """Delete a topic and create an empty one."""
        self.log.recreate(topic)

    def grow(self, topic: str, kafka_partitions: int) -> None:
        """Give a topic more Kafka partitions."""
        self.log.grow(topic, kafka_partitions)

    def set_position(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Move a group's position."""
        self.log.set_position(group, partition, offset)

    def forget_positions(self, group: str) -> None:
        """Let a group's positions expire."""
        self.log.forget_positions(group)

    def inconsistencies(self) -> list[str]:
        """What keeps units from starting."""
        units = (UnitPartitions.from_stage(counting(), number, CODEC.topics) for number in range(4))
        return [str(found) for unit in units for found in self._examined(unit)]

    def _examined(self, unit: UnitPartitions) -> list[Inconsistency]:
        provenance, state = split_state(restore(self.log, unit.changelog))
        found = facts_in_memory(self.log, unit, provenance)
        return check_at_start(unit, provenance, bool(state), found)

    def start(self, plan: Plan) -> MemoryWorker:
        """Start a worker."""
        worker = MemoryWorker(self, plan)
        self._workers.append(worker)
        return worker

    def until(self, condition: Callable[[], bool]) -> None:
        """Step every worker until the condition holds."""
        for _ in range(_IDLE_STEPS):
            if condition():
                return
            self._step(self._workers)
        raise TimeoutError("the workers in memory do not get there")

    def run_all_but(self, stalled: MemoryWorker) -> None:
        """Let the others work until they find nothing more."""
        others = [worker for worker in self._workers if worker is not stalled]
        while self._step(others):
            pass

    def _step(self, workers: list[MemoryWorker]) -> bool:
        return sum(worker.step() for worker in workers if not worker.ended) > 0
