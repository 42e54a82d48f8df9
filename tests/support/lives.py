"""Units that may be killed after each commit, without a log."""

from collections.abc import Sequence

from google.protobuf.message import Message

from shared.catalogue.event import Publish
from shared.catalogue.record import Record
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit, Unit
from tests.support.messaging import CODEC, START_US, at_offset, encoded, payloads


class Life:
    """Unit 0 of a stage whose rounds a clock closes."""

    def __init__(self, stage: Stage) -> None:
        self.state: dict[str, bytes] = {}
        self._stage = stage
        self._offset = 0
        self.restart()

    def restart(self) -> None:
        """Another process with what the changelog holds."""
        self._unit = Unit(self._stage, 0, dict(self.state), CODEC)

    def tell(self, *published: Publish) -> list[Message]:
        """What follows from records at once."""
        found = [at_offset(new, self._offset + n) for n, new in enumerate(encoded(*published))]
        self._offset += len(found)
        return self.take(found)

    def take(self, records: Sequence[Record]) -> list[Message]:
        """What follows from these records at once."""
        return self._keep(self._unit.process(records, START_US))

    def end_round(self, now_us: int) -> list[Message]:
        """What follows from the end of a round."""
        return self._keep(self._unit.close_round(now_us))

    def _keep(self, commit: Commit) -> list[Message]:
        for key, value in commit.changelog.items():
            self.state.pop(key, None)
            self.state |= {} if value is None else {key: value}
        return [event.payload for event in payloads(commit.outputs)]
