"""State that moves with its keys says whose it is: `Stage.keyed_by`."""

from cli.stages import every_stage
from shared.messaging.stages.stage import Stage
from shared.runtime.settings import Settings


def test_every_keyed_stage_names_the_key_of_its_state() -> None:
    stages: list[Stage] = every_stage(Settings())
    assert [stage.name for stage in stages if not stage.single and not stage.keyed_by] == []
