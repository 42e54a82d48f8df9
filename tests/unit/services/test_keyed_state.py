"""State that moves with its keys says whose it is: `Stage.keyed_by`."""

from coplace.v1.pricing_state_pb2 import CoRunInterval

from cli.stages import every_stage
from services.pricing.state import Attempts, job_of
from shared.messaging.stage import Stage
from shared.runtime.settings import Settings


def test_every_keyed_stage_names_the_key_of_its_state() -> None:
    stages: list[Stage] = every_stage(Settings())
    assert [stage.name for stage in stages if not stage.single and not stage.keyed_by] == []


def test_what_pricing_keeps_belongs_to_the_job() -> None:
    attempts = Attempts({})
    attempt = attempts.get(("north/alpha/1/0", 2))
    attempts.save(attempt)
    attempts.add_interval(attempt, CoRunInterval(job_id="north/alpha/1/0", event_id="e"))
    changes = attempts.changes()
    assert len(changes) == 2
    assert {job_of(key, value or b"") for key, value in changes.items()} == {"north/alpha/1/0"}
