"""Every value of every setting, from where settings are declared."""

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from importlib import import_module
from math import nextafter
from types import ModuleType, NoneType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

import services
import shared
from coplace_agent.fields import Limits
from coplace_agent.settings import PREFIX, SHARED_PREFIX, AgentSettings, SharedSettings
from shared.catalogue.policy_settings import PREFIX as RULES
from shared.catalogue.policy_settings import SETTINGS
from shared.catalogue.setting import DeclaredSetting
from shared.process.environment import EnvironmentSettings

# Where a number has no most, or no least.
_LARGE: Final = 1_000_000
# Above a bound that is excluded; a period or a patience of nothing at all is no value to try.
_SMALL: Final = 0.01


class Value(NamedTuple):
    """A value of a setting, and whether its declaration takes it."""

    variable: str
    text: str
    is_taken: bool = True


Values = Mapping[str, Sequence[Value]]


def settings_modules() -> list[ModuleType]:
    """Every module of that name in a service or in what services share."""
    found = [
        each.name
        for package in (services, shared)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if each.name.endswith(".settings")
    ]
    return [import_module(name) for name in found]


def settings_classes() -> list[type[EnvironmentSettings]]:
    """Every class of settings that such a module declares for processes."""
    found = {
        each
        for module in settings_modules()
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, EnvironmentSettings)
        if each.__module__ == module.__name__ and not each.__name__.startswith("_")
    }
    return sorted(found, key=lambda each: (each.__module__, each.__name__))


def values_of(declared: type[EnvironmentSettings]) -> Values:
    """The values of each setting of a class, by its variable."""
    prefix = str(declared.model_config["env_prefix"])
    found: dict[str, list[Value]] = {}
    for name, each in declared.model_fields.items():
        variable = f"{prefix}{name}".upper()
        if prefix == RULES and name in SETTINGS:
            found[variable] = list(_of_rule(variable, SETTINGS[name]))
        else:
            found[variable] = list(_of_field(variable, each.annotation, each.metadata))
    return found


def values_of_agent() -> Values:
    """The values of each setting of the node agent, which declares them in a way of its own."""
    found: dict[str, list[Value]] = {}
    for prefix, declared in ((SHARED_PREFIX, SharedSettings), (PREFIX, AgentSettings)):
        hints = get_type_hints(declared, include_extras=True)
        for each in fields(declared):
            hint = hints[each.name]
            limits = next((m for m in getattr(hint, "__metadata__", ()) if type(m) is Limits), None)
            kind = getattr(hint, "__origin__", hint)
            variable = f"{prefix}{each.name}".upper()
            found[variable] = list(_of_limits(variable, kind, limits or Limits()))
            assert each.default is not MISSING or each.default_factory is not MISSING
    return found


def _of_rule(variable: str, rule: DeclaredSetting) -> Iterator[Value]:
    if rule.kind is bool:
        yield from _listed(variable, ("true", "false"))
    elif rule.choices:
        yield from _listed(variable, rule.choices)
    elif rule.is_list:
        yield from _listed(variable, (rule.write(rule.default),))
    elif rule.bound:
        least, most = rule.bound.least, rule.bound.most
        yield from _listed(variable, [rule.write(rule.kind(each)) for each in (least, most)], "x")


def _of_field(variable: str, annotation: Any, metadata: Sequence[Any]) -> Iterator[Value]:
    kind = next((one for one in get_args(annotation) or (annotation,) if one is not NoneType), str)
    if get_origin(annotation) is Literal:
        yield from _listed(variable, get_args(annotation))
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield from _listed(variable, [each.value for each in kind])
    elif kind is bool:
        yield from _listed(variable, ("true", "false"))
    elif kind in (int, float):
        said = {name: limit for each in metadata for name in _BOUNDS if (limit := _said(each, name))
                is not None}  # fmt: skip
        yield from _numbers(variable, kind, said)


def _of_limits(variable: str, kind: Any, limits: Limits) -> Iterator[Value]:
    if limits.among:
        yield from _listed(variable, limits.among)
    elif kind in (int, float):
        names = {"ge": limits.least, "gt": limits.above, "le": limits.most}
        said = {name: limit for name, limit in names.items() if limit is not None}
        yield from _numbers(variable, kind, said)


_BOUNDS: Final = ("ge", "gt", "le", "lt")


def _said(metadata: Any, name: str) -> float | None:
    found: float | None = getattr(metadata, name, None)
    return found


def _numbers(variable: str, kind: type[int | float], said: Mapping[str, float]) -> Iterator[Value]:
    """The bounds, and what lies just beyond."""
    least, above = said.get("ge"), said.get("gt")
    most = said.get("le", max(_LARGE, 2 * (least or 0)))
    if least is None:
        first = (above or 0) + (1 if kind is int else min(_SMALL, (most - (above or 0)) / 2))
        beyond = above or 0
    else:
        first, beyond = least, least - 1 if kind is int else nextafter(least, -1.0)
    for value in dict.fromkeys((kind(first), kind(most))):
        yield Value(variable, _written(value))
    yield Value(variable, _written(kind(beyond)), is_taken=False)
    if "le" in said:
        over = most + 1 if kind is int else nextafter(most, most + 1)
        yield Value(variable, _written(kind(over)), is_taken=False)
    yield Value(variable, "x", is_taken=False)


def _written(value: float) -> str:
    return repr(value)


def _listed(variable: str, texts: Sequence[str], wrong: str = "none-of-them") -> Iterator[Value]:
    for text in texts:
        yield Value(variable, str(text))
    yield Value(variable, wrong, is_taken=False)
