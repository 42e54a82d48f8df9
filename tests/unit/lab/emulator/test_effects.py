import pytest

from coplace_client.errors import WrongSettingsError
from lab.demo.effects import off
from lab.demo.options import DemoOptions
from lab.emulator.effects import EVERY, NONE, Effect, effects_without
from lab.emulator.settings import SimulationSettings


def test_effects_are_switched_off_by_name() -> None:
    assert effects_without("") == EVERY
    assert effects_without("clocks, inputs") == EVERY - {Effect.CLOCKS, Effect.INPUTS}
    assert effects_without(off(NONE)) == NONE
    assert effects_without(off({Effect.TIME})) == {Effect.TIME}


def test_an_unknown_effect_is_refused_by_its_variable_with_those_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_SIMULATION_WITHOUT", "clocks,weather")

    with pytest.raises(WrongSettingsError, match=r"SIMULATION_WITHOUT.*time, clocks.*'weather'"):
        SimulationSettings()


def test_a_demo_leaves_out_what_its_options_or_its_environment_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_SIMULATION_WITHOUT", "power")

    assert DemoOptions().simulation.without == "power"
    assert DemoOptions(without="time").simulation.without == "time"
