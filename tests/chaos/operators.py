"""The operator of a region: acts as the how-tos say, by what the system shows."""

from collections.abc import Callable, Iterable
from typing import Final

from coplace.v1.placement_service_pb2 import ExplainResponse

from cli.seize import NothingToSeizeError, seizure
from tests.chaos.clock import Clock
from tests.chaos.managers import Grant
from tests.chaos.network import Network

SOURCE: Final = "chaos"


class Operator:
    """Takes back what resource managers will never report on, as `coplace seize` does: placement is
    asked first, and only what it shows is seized. A start whose report is late shows later."""

    def __init__(
        self, explain: Callable[[str], ExplainResponse | None], network: Network, clock: Clock
    ) -> None:
        self._explain, self._network, self._clock = explain, network, clock
        self._gone: dict[Grant, None] = {}

    def vouch(self, gone: Iterable[Grant]) -> None:
        """These neither run nor will start: their nodes lost their power."""
        self._gone.update(dict.fromkeys(gone))

    def seize(self) -> None:
        """Seize what is gone, as far as placement shows it by now."""
        for grant in list(self._gone):
            found = self._explain(grant[0])
            if found is None or (found.job_id, found.attempt, found.allocation.grant) != grant:
                continue
            try:
                event = seizure(found, "no power", SOURCE, self._clock.now_us)
            except NothingToSeizeError:
                continue
            self._network.send(event)
            del self._gone[grant]
