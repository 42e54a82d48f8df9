"""Jobs of a queue count where they are."""

from dataclasses import replace

from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.states import QueueState
from tests.unit.services.kubernetes.objects import LIVE, recorded


def test_what_runs_is_among_what_was_admitted_and_what_has_ended_is_nowhere() -> None:
    starting = recorded(replace(LIVE, run_uid=""))
    found = QueueCounts.of_states(
        [
            (QueueState.WAITS, None),
            (QueueState.WAITS, recorded()),
            (QueueState.RUNS, starting),
            (QueueState.RUNS, recorded(LIVE)),
            (QueueState.ENDED, recorded(LIVE, "completed")),
            (QueueState.REFUSED, None),
            (QueueState.ASIDE, None),
        ]
    )
    assert found == QueueCounts(waiting=2, admitted=2, running=1, refused=1, aside=1)
