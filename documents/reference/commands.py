"""The commands, as the command line declares them."""

from collections.abc import Iterator, Sequence
from enum import EnumType
from typing import Any, Final

import typer

from cli.main import app
from coplace_agent.command import parser
from documents.reference.markdown import cell, code, table

_HEAD: Final = """# Commands

`coplace COMMAND --help` prints the same. This page follows from the command line itself. Options
that have a variable read it where they are not given.
"""


def page() -> str:
    """Return it in Markdown."""
    root = typer.main.get_command(app)
    commands = sorted(_commands("coplace", root))
    rows = ((f"[{code(name)}](#{_anchor(name)})", _first(each)) for name, each in commands)
    sections = [_HEAD, table(("command", "what it does"), rows)]
    described = (_section(name, each) for name, each in commands)
    return "\n".join([*sections, *described, *_of_agent()])


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Return each command that does something, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name in inner:
        if not (found := inner[name]).hidden:
            yield from _commands(f"{path} {name}", found)


def _of_agent() -> Iterator[str]:
    agent = parser()
    yield f"## {agent.prog}\n\n{agent.description}\n"
    found = [each.choices for each in agent._actions if isinstance(each.choices, dict)]
    for name, verb in (named for verbs in found for named in verbs.items()):
        yield f"### {agent.prog} {name}\n\n```text\n{verb.format_help()}```\n"


def _section(name: str, command: Any) -> str:
    about = "\n\n".join(map(cell, (command.help or "").split("\n\n")))
    usage = " ".join((name, *map(_word, _arguments(command))))
    lines = [f"## {name}\n", f"{about}\n", f"```text\n{usage}\n```\n"]
    for kind, found in (("argument", _arguments(command)), ("option", _options(command))):
        if found:
            lines.append(table((kind, "default", "what it is"), map(_row, found)))
    return "\n".join(lines)


def _word(argument: Any) -> str:
    """Return how usage shows an argument."""
    name = f"{_named(argument)}{'...' if argument.nargs == -1 else ''}"
    return name if argument.required else f"[{name}]"


def _named(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _arguments(command: Any) -> Sequence[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _options(command: Any) -> Sequence[Any]:
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _row(parameter: Any) -> tuple[str, str, str]:
    names = (*parameter.opts, *parameter.secondary_opts)
    shown = _named(parameter) if parameter.param_type_name == "argument" else ""
    kind: Any = parameter.type_descriptor.annotation
    choices = [*map(code, map(_value, kind))] if isinstance(kind, EnumType) else []
    of_these = f" One of {', '.join(choices)}." if choices else ""
    variable = f" Variable: {code(str(parameter.envvar))}." if parameter.envvar else ""
    about = f"{getattr(parameter, 'help', None) or ''}{of_these}{variable}"
    return code(shown or ", ".join(names)), _default(parameter), about


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or callable(default) or default in ((), [], "", False):
        return ""
    return code(_value(default))


def _value(choice: Any) -> str:
    return str(getattr(choice, "value", choice))


def _first(command: Any) -> str:
    return (command.help or "").split("\n\n")[0]


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
