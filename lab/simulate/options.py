"""The options of `coplace simulate`, made of the fields of scenarios."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from lab.simulate.scenarios import KINDS, TOGETHER, Section

# Where a value belongs in a scenario: the names of fields from the outside in.
FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScenarioOption:
    """An option of the command: `name` as it is typed, `place` where its value goes."""

    name: str
    place: FieldPath
    parameter: Parameter


def _options(model: type[Section], place: FieldPath = ()) -> Iterator[ScenarioOption]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _options(inner, (*place, name))
        else:
            yield _option(name, field, (*place, name))


def _option(name: str, field: FieldInfo, place: FieldPath) -> ScenarioOption:
    extra = field.json_schema_extra
    declared = str(extra["option"]) if isinstance(extra, Mapping) else ""
    spelled = declared or f"--{name.replace('_', '-')}"
    bounds = {type(each): each for each in _bounds(field)}
    least, most = bounds.get(Ge), bounds.get(Le)
    typed = typer.Option(
        spelled,
        min=least.ge if least else None,
        max=most.le if most else None,
        help=_help(field),
    )
    annotation = Annotated[_typed(field), typed]  # type: ignore[valid-type]
    parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    return ScenarioOption(spelled.partition("/")[0], place, parameter)


def _bounds(field: FieldInfo) -> Iterator[Any]:
    """The least and the most that a value may be, that of each value of several too."""
    yield from _constraints(field.metadata)
    yield from _inner(field.annotation)


def _inner(annotation: Any) -> Iterator[Any]:
    for part in get_args(annotation):
        if isinstance(part, FieldInfo):
            yield from _constraints(part.metadata)
        else:
            yield from _inner(part)


def _constraints(metadata: Any) -> Iterator[Any]:
    return (each for each in metadata if isinstance(each, Ge | Le))


def _typed(field: FieldInfo) -> Any:
    """What the command line takes: nothing where an option was not given."""
    plain = _plain(field.annotation)
    if get_origin(plain) is tuple:
        value = _plain(get_args(plain)[0])
        return str | None if TOGETHER in field.metadata else list[value] | None  # type: ignore[valid-type]
    return plain | None


def _plain(annotation: Any) -> Any:
    """Without constraints and None."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        (value,) = (part for part in get_args(annotation) if part is not NoneType)
        return _plain(value)
    return annotation


def _help(field: FieldInfo) -> str:
    """What it says, and what holds if it is not given."""
    usual = field.default
    values = usual if isinstance(usual, tuple) else (usual,)
    if not values or field.is_required() or usual is None or isinstance(usual, bool):
        return field.description or ""
    return f"{field.description} (default: {', '.join(map(_shown, values))})"


def _shown(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _all() -> dict[str, ScenarioOption]:
    """By the name of the parameter; where kinds share one, the first says what it is, and the
    command line takes any text where they take different values."""
    found: dict[str, ScenarioOption] = {}
    for model in KINDS.values():
        for option in _options(model):
            name = option.parameter.name
            known = found.setdefault(name, option)
            if _value(known) != _value(option):
                found[name] = _of_text(known, option, model.played_on)
    return found


def _value(option: ScenarioOption) -> Any:
    """What the command line takes at once."""
    return _inner_type(get_args(option.parameter.annotation)[0])


def _inner_type(annotation: Any) -> Any:
    plain = _plain(annotation)
    return get_args(plain)[0] if get_origin(plain) is list else plain


def _of_text(known: ScenarioOption, other: ScenarioOption, played_on: str) -> ScenarioOption:
    """One that takes what either does, and whose help says both."""
    typed, others = (copy(get_args(each.parameter.annotation)[1]) for each in (known, other))
    typed.help += f"{_values(known)} On {played_on}: {others.help}{_values(other)}"
    annotation = Annotated[list[str] | None, typed]
    return replace(known, parameter=known.parameter.replace(annotation=annotation))


def _values(option: ScenarioOption) -> str:
    """Those of an enumeration, in words."""
    values = _value(option)
    is_named = isinstance(values, type) and issubclass(values, Enum)
    return f" {', '.join(map(_shown, values))}." if is_named else ""


OPTIONS: Final[Mapping[str, ScenarioOption]] = _all()
