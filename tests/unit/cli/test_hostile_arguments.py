"""Every command of the command line, asked with what no user should give, ends with one line or a
usage error, never with a traceback."""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from typer.testing import CliRunner

from cli.kafka_topics import StalledRunError
from cli.main import app
from cli.profile import kernels
from deploy.local.errors import LocalServersError
from deploy.local.servers import LocalServers
from lab.demo import embedded
from lab.workloads.generate import built_in
from shared.process.settings import settings
from tests.unit.cli.hostile import (
    FILES,
    TEXTS,
    given,
    options_of,
    problem_of,
    problems_of,
    write_files,
)


def commands() -> dict[tuple[str, ...], Any]:
    """Every command with its words, as the application itself lists them."""

    def below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, each in getattr(command, "commands", {}).items():
            yield from below((*words, name), each)
        if not hasattr(command, "commands"):
            yield words, command

    return dict(below((), typer.main.get_command(app)))


COMMANDS: Final = commands()
# Most attacks upon a demo are upon the same jobs.
_BUILT_IN: Final = cache(built_in)
# Its options do something only beside usable ones: simulate/test_cli.py attacks these.
ATTACKED: Final = [words for words in COMMANDS if words != ("simulate",)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of hostile files to be in, with no server anywhere and none to be started."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPLACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("COPLACE_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("COPLACE_AGENT_RUN_DIR", str(tmp_path / "agent"))
    for client in (KafkaConsumer, KafkaProducer, KafkaAdminClient):
        monkeypatch.setitem(client.DEFAULT_CONFIG, "bootstrap_timeout_ms", 20)

    def refuse(*_: object, **__: object) -> None:
        raise LocalServersError("no servers are started here")

    def stall(*_: object, **__: object) -> None:
        raise StalledRunError("nothing is played here")

    monkeypatch.setattr(LocalServers, "up", refuse)
    monkeypatch.setattr(kernels, "compile_kernels", refuse)
    monkeypatch.setattr(embedded, "run", stall)
    monkeypatch.setattr("lab.emulator.app.built_in", _BUILT_IN)
    # It waits for an adapter that nobody starts.
    monkeypatch.setattr("coplace_testing.conformance.cli._check", refuse)
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


def attacks(words: tuple[str, ...]) -> Iterator[list[str]]:
    """Each option with each hostile value; what is required beside it is hostile too."""
    options = list(options_of(COMMANDS[words]))
    required = [option for option, _ in options if option.required]
    for value in (*FILES, *TEXTS) if required else ():
        yield [*words, *(word for option in required for word in given(option, value))]
    for option, values in options:
        beside = [word for each in required if each is not option for word in given(each, "empty")]
        for value in values:
            yield [*words, *beside, *given(option, value)]


# Each change plays every third value, of each option others; the rest of the gate every other one.
@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [3, pytest.param(2, marks=pytest.mark.rest), pytest.param(1, marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("words", ATTACKED, ids=" ".join)
@pytest.mark.usefixtures("folder")
def test_hostile_arguments_end_in_one_line(words: tuple[str, ...], step: int) -> None:
    assert not problems_of(islice(attacks(words), 0, None, step))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("folder")
def test_a_setting_that_cannot_work_ends_every_command_that_reads_it_in_one_line(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_KAFKA_PARTITIONS", "many")
    monkeypatch.setenv("COPLACE_SIMULATION_SEED", "-1")
    monkeypatch.setenv("COLUMNS", "1")
    monkeypatch.delenv("HOME", raising=False)
    required = (option for option, _ in options_of(COMMANDS[words]) if option.required)
    asked = [*words, *(word for option in required for word in given(option, "text"))]
    assert problem_of(asked) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tail", "nope"], "unknown topic nope: `coplace topics list`"),
        (["dlq", "list", "nope"], "unknown topic nope"),
        (["compare", "nope", "nope"], "nope/decisions.jsonl: No such file"),
        (["dlq", "list"], "Kafka at 127.0.0.1:1: "),
        (["topics", "create"], "is it up, with this deployment's topics"),
        (["why", "job", "--address", "127.0.0.1:1"], "127.0.0.1:1: failed to connect"),
        (["simulate", "--swf", "zeros.gz"], "zeros.gz has a line of over"),
        (["simulate", "--system", "laughs.yaml", "--coefficients", "."], "write out what"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_line_says_what_it_is_about_and_what_to_do(words: list[str], told: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert told in result.stderr


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("cli.topics.load_topics", broken)
    result = CliRunner().invoke(app, ["topics", "list"])
    assert isinstance(result.exception, ValueError)
