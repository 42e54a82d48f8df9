"""Every stage comes up with every value of every setting in its empty state, survives a first round
in which nothing was reported, and its successor goes on; or it refuses the value by the setting's
name.

The same with real processes: tests/integration/test_starts.py, and `make starts` at length."""

import pytest

from cli.stages import stages_of
from coplace_client.errors import WrongSettingsError
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.starts.declared import Value, settings_classes
from tests.starts.entry_points import (
    ONE_SHOT,
    WITH_STAGES,
    EntryPoint,
    console_scripts,
    entry_points,
    modules_with_main,
)
from tests.starts.processes import is_named
from tests.support.messaging import CODEC, START_US, barriers

ENTRIES = {each.module: each for each in entry_points()}
TOLD = {service: ENTRIES[module].told for module, service in WITH_STAGES.items()}
NOW_US = START_US + 60_000_000


def play(service: str) -> None:
    """Two rounds of nothing, by one process after the other."""
    shared = Settings()
    stages, log = stages_of(service, shared), InMemoryLog()
    for number in range(2):
        runtime = EmbeddedRuntime(log, stages, codec=CODEC, quarantine_after=0)
        log.append(barriers(number, *TOLD[service]))
        runtime.run_until_quiet(NOW_US)
        for stage in stages:
            if stage.rounds is RoundSource.CLOCK:
                runtime.close_rounds(stage.name, NOW_US + number)
        runtime.leave()


def require_value(monkeypatch: pytest.MonkeyPatch, service: str, value: Value) -> None:
    """Hold a service to what is declared of a value."""
    with monkeypatch.context() as environment:
        environment.setenv(value.variable, value.text)
        refusal = refused(service)
    assert is_named(value, refusal) if refusal else value.is_taken, (value, refusal)


def refused(service: str) -> str:
    """Why a service does not take its settings; empty where it does, and has played."""
    try:
        play(service)
    except WrongSettingsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("module", WITH_STAGES)
def test_every_value_of_every_setting_survives_a_first_empty_round(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ENTRIES[module].every_value:
        require_value(monkeypatch, WITH_STAGES[module], value)


def test_what_is_started_is_what_the_distributions_hold() -> None:
    assert set(ENTRIES) | ONE_SHOT == modules_with_main()
    assert set(ENTRIES) >= WITH_STAGES.keys()
    assert console_scripts().keys() == {"coplace", "coplace-agent", "kubectl-coplace"}


def test_each_class_of_settings_is_read_by_some_program() -> None:
    read = {variable for entry in ENTRIES.values() for variable in entry.values}
    for each in settings_classes():
        prefix = str(each.model_config["env_prefix"])
        assert {f"{prefix}{name}".upper() for name in each.model_fields} <= read


def test_the_searches_of_the_planner_are_among_the_values() -> None:
    entry: EntryPoint = ENTRIES["services.planner"]
    searches = [each.text for each in entry.values["COPLACE_PLANNER_SEARCH"] if each.is_taken]
    assert searches == ["look-ahead", "ls", "hybrid", "dec"]
