"""A scenario from its parts: a file, what `--set` says, and options, of which the later count."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from coplace_client.errors import UnusableError
from lab.simulate.options import OPTIONS, FieldPath
from lab.simulate.scenarios import KINDS, TELLING, Scenario
from shared.process.user_files import read_yaml

_KIND: Final = "kind"
_VALUE_ERROR: Final = "Value error, "


def scenario_of(file: Path | None, sets: Sequence[str], given: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a YAML file, with values by dotted path (PLACE=VALUE; without a value
    the default) and options by parameter in place of its own.

    Raises OSError for a file that cannot be read, UnusableError, which names the value, for what is
    no scenario.
    """
    found = {} if file is None else _content(file)
    for each in sets:
        place, is_set, value = each.partition("=")
        if not is_set or not place:
            raise UnusableError(f"--set takes PLACE=VALUE, such as policy=easy, got {each[:80]!r}")
        _put(found, tuple(place.split(".")), value or None)
    for name, value in given.items():
        _put(found, OPTIONS[name].place, value)
    names = _Names(typed=file is None and not sets)
    told = f"{file} is not a scenario: " if file is not None else ""
    try:
        return _validated(found, names)
    except UnusableError as error:
        raise UnusableError(f"{told}{error}") from error


def _content(file: Path) -> dict[str, Any]:
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise UnusableError(
            f"{file} is not a scenario: it must have names and values, such as kind:"
        )
    return content


def _put(found: dict[str, Any], place: FieldPath, value: Any) -> None:
    """Set a value, or with None forget it."""
    *outer, name = place
    for each in outer:
        inner = found.setdefault(each, {})
        if not isinstance(inner, dict):
            raise UnusableError(f"{'.'.join(place)}: {each} is a value and has no {name}")
        found = inner
    if value is None:
        found.pop(name, None)
    else:
        found[name] = value


class _Names:
    """What values are called: options where all were `typed` as such, else dotted paths."""

    def __init__(self, *, typed: bool) -> None:
        self._options = {option.place: option.name for option in OPTIONS.values()} if typed else {}

    def of(self, place: Sequence[object]) -> str:
        """A value, or one of several."""
        names = tuple(each for each in place if isinstance(each, str))
        return self._options.get(names) or ".".join(map(str, place))

    def filled(self, text: str) -> str:
        """A text with the names of the fields that it has in braces."""
        for option in OPTIONS.values():
            text = text.replace(f"{{{option.place[-1]}}}", self.of(option.place))
        return text


def _validated(content: dict[str, Any], names: _Names) -> Scenario:
    told = content.pop(_KIND, None)
    kind = told or next((kind for field, kind in TELLING.items() if field in content), "pool")
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(KINDS)
        raise UnusableError(f"kind must be one of {known}, got {str(kind)[:40]!r}")
    model = KINDS[kind]
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = (_problem(model, dict(each), names) for each in error.errors())
        raise UnusableError("; ".join(dict.fromkeys(problems))) from error


def _problem(model: type[Scenario], error: Mapping[str, Any], names: _Names) -> str:
    place, kind = error["loc"], error["type"]
    name = names.of(place)[:80]
    if kind == "missing":
        return f"{name} is needed: give a path"
    if kind != "extra_forbidden":
        text = names.filled(error["msg"].removeprefix(_VALUE_ERROR))
        return f"{name}: {text}" if place else text
    if place in {option.place for option in OPTIONS.values()}:
        return f"{name}: of no use on {model.played_on}: leave it out"
    return f"{name} is not known: {model.played_on} has {', '.join(model.model_fields)}"
