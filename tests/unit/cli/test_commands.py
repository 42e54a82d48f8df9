"""What is not asked for is not imported: a command and a service start soon."""

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from cli.commands import Commands, with_commands_of

CLIENTS = {"aiohttp", "aiokafka", "grpc", "kafka", "redis"}
LIBRARIES = {"matplotlib", "numpy", "pydantic", "scipy", "sklearn"}


def imported(module: str) -> set[str]:
    """The packages that a fresh process has after it imported a module."""
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("cli.main", CLIENTS | LIBRARIES | {"faust", "lab", "services", "shared"}),
        ("deploy.local.servers", CLIENTS | {"matplotlib", "numpy", "scipy", "sklearn"}),
        pytest.param(
            "services.placement.app",
            {"aiohttp", "faust", "matplotlib", "redis", "scipy", "sklearn"},
            marks=pytest.mark.rest,
        ),
        pytest.param(
            "services.prediction.app",
            {"aiohttp", "faust", "matplotlib", "redis", "sklearn"},
            marks=pytest.mark.rest,
        ),
        *(
            pytest.param(
                f"services.{adapter}.app",
                {"faust", "kafka", "matplotlib", "numpy", "redis", "scipy", "sklearn"},
                marks=pytest.mark.rest,
            )
            for adapter in ("kubernetes", "kueue", "slurm")
        ),
    ],
)
def test_a_process_imports_nothing_that_it_may_never_use(module: str, unused: set[str]) -> None:
    assert not imported(module) & unused


def test_a_command_is_imported_when_it_is_looked_up() -> None:
    commands = Commands({"tail": "cli.topics:tail", "broken": "cli.no_such_module:app"})
    assert list(commands) == ["tail", "broken"]
    assert commands["tail"].name == "tail"
    assert commands["tail"] is commands.get("tail")
    with pytest.raises(ModuleNotFoundError):
        commands["broken"]


def test_what_is_elsewhere_is_beside_what_is_here() -> None:
    places = {"simulate": "lab.simulate.cli:simulate", "topics": "cli.topics:app"}
    app = typer.Typer(cls=with_commands_of(TyperGroup, places))

    @app.command()
    def here() -> None:
        """Say so."""
        typer.echo("here")

    @app.callback()
    def _common() -> None:
        pass

    group: Any = typer.main.get_command(app)
    assert list(group.commands) == ["here", *places]
    assert CliRunner().invoke(app, ["here"]).stdout == "here\n"
    shown = CliRunner().invoke(app, ["topics", "--help"]).stdout
    assert "Create and list the topics." in shown
    assert "install-completion" not in shown
    assert "placement.decisions" in CliRunner().invoke(app, ["topics", "list"]).stdout
    assert "simulate" in CliRunner().invoke(app, ["--help"]).stdout
