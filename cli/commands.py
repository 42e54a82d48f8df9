"""Commands that other modules hold: one is imported when somebody asks for it.

All of them together take a second and a half to import, and most need but one server's client.
"""

from collections import UserDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer

from cli.extras import NotInstalledError, not_installed


class Commands(UserDict[str, Any]):
    """Commands by name, as a group keeps them. What is `module:name` at first becomes a command
    when it is looked up: a function, or an application of several."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = _command(name, found)
        return found


def _command(name: str, place: str) -> Any:
    module, _, held = place.partition(":")
    try:
        found = getattr(import_module(module), held)
    except ModuleNotFoundError as error:
        found = _missing(not_installed(error))
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command


def _missing(error: NotInstalledError) -> Callable[[], None]:
    """The replacement for a command whose libraries are not installed; all others work."""

    def missing() -> None:
        raise error

    missing.__doc__ = f"Not installed: {error}."
    return missing


def with_commands_of(group: type[Any], places: Mapping[str, str]) -> type[Any]:
    """Return the group's class with commands that are elsewhere, by name and `module:name`."""

    class Group(group):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands: Any = Commands({**given.get("commands", {}), **places})

    return Group
