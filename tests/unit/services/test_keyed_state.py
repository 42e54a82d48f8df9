"""State that moves with its keys says whose it is: `Stage.keyed_by`."""

from cli.stages import every_stage
from shared.process.settings import Settings
from shared.streams.stages.stage import Stage


def test_every_keyed_stage_names_the_key_of_its_state() -> None:
    stages: list[Stage] = every_stage(Settings())
    assert [stage.name for stage in stages if not stage.single and not stage.keyed_by] == []
