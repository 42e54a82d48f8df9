"""Numbers as users type them after commands: in the digits 0 to 9 of ASCII, finite, in one way."""

from collections.abc import Iterator
from types import NoneType
from typing import Any, Final, get_args

import typer

from coplace_client.numbers import is_number, is_whole

# Of these the commands say themselves that they are finite, and between which bounds.
_BOUNDED_BY_THE_COMMAND: Final = ("watts", "t_weight", "min_energy_threshold", "min_time_threshold")


def require_plain_numbers(command: Any) -> None:
    """Let the numbers of a command, and of all that it groups, be refused that are written in
    another way, such as `1_000`, `inf` and in the digits of other scripts."""
    for each in getattr(command, "commands", {}).values():
        require_plain_numbers(each)
    for param in command.params:
        described = param.type_descriptor
        kinds = set() if described.parameter_info.parser else _kinds(described.annotation)
        if kinds and not kinds - {int, float} and "process_value" not in vars(param):
            param.process_value = _Checked(param, is_whole if kinds == {int} else is_number)


def _kinds(annotation: Any) -> set[Any]:
    """What the values of a parameter are: those within a list, and without None."""
    within = [each for each in get_args(annotation) if each is not NoneType]
    return set().union(*map(_kinds, within)) if within else {annotation}


class _Checked:
    """Processes the value of a parameter as before, once its texts are numbers."""

    def __init__(self, param: Any, is_one: Any) -> None:
        self._process, self._param, self._is_one = param.process_value, param, is_one
        self._has_words = param.name in _BOUNDED_BY_THE_COMMAND

    def __call__(self, ctx: Any, value: Any) -> Any:
        for text in _texts(value):
            is_word = self._has_words and text.lower() in ("inf", "-inf", "nan")
            if not (is_word or self._is_one(text)):
                kind = "whole" if self._is_one is is_whole else "finite"
                raise typer.BadParameter(
                    f"{text[:40]!r} is not a {kind} number in the digits 0 to 9",
                    ctx=ctx,
                    param=self._param,
                )
        return self._process(ctx, value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
