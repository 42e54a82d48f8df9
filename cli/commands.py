"""Commands that other modules hold: one is imported when somebody asks for it.

All of them together take a second and a half to import, and most need but one server's client.
"""

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer


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
    found = getattr(import_module(module), held)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command


def with_commands_of(group: type[Any], places: Mapping[str, str]) -> type[Any]:
    """The group's class with commands that are elsewhere, by name and `module:name`."""

    class Group(group):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands: Any = Commands({**given.get("commands", {}), **places})

    return Group
