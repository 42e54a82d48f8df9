"""The settings of every process, from the fields that declare them."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from coplace_agent.fields import Limits
from coplace_agent.settings import PREFIX, AgentSettings
from documents.pages import ROOT
from documents.reference.markdown import code, table
from shared.catalogue.policy_settings import SETTINGS
from shared.process.environment import EnvironmentSettings

_HEAD: Final = """# Settings of processes

Each process reads its settings from environment variables when it starts. A value that cannot be
used ends it with one line that names the variable. Placement and the planner read the [settings
of the policy](../policy-settings.md) too. This page follows from the fields in each
`settings.py`.
"""
_FOLDERS: Final = ("shared/process", "shared/placement", "services", "lab/emulator")
_COLUMNS: Final = ("variable", "default", "bounds", "what it is")
_BOUNDS: Final = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}
# Where the process is meant that has no folder of its own.
_OF_ALL: Final = "shared/process"


def page() -> str:
    """Return it in Markdown."""
    sections = [_HEAD]
    for name, declared in _classes():
        rows = [
            row
            for field, info in declared.model_fields.items()
            for row in _row(declared, field, info)
        ]
        sections.append(f"## {name}\n\n{table(_COLUMNS, rows)}")
    sections.append(f"## node agent\n\n{table(_COLUMNS, _of_agent())}")
    return "\n".join(sections)


def _classes() -> Iterator[tuple[str, type[EnvironmentSettings]]]:
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("settings.py")):
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name, found in inspect.getmembers(module, inspect.isclass):
                if (
                    issubclass(found, EnvironmentSettings)
                    and found.__module__ == module.__name__
                    and not name.startswith("_")
                ):
                    yield _titled(path), found


def _titled(path: Path) -> str:
    folder = path.parent.relative_to(ROOT)
    return "every process" if str(folder) == _OF_ALL else " ".join(folder.parts[1:])


def _row(
    declared: type[EnvironmentSettings], name: str, info: FieldInfo
) -> Iterator[tuple[str, ...]]:
    if name in SETTINGS:
        return
    prefix = declared.model_config.get("env_prefix", "")
    default = info.get_default(call_default_factory=True)
    shown = "" if default in (PydanticUndefined, None) else str(getattr(default, "value", default))
    bounds = [
        f"{word} {bound:,}"
        for each in info.metadata
        for mark, word in _BOUNDS.items()
        if (bound := getattr(each, mark, None)) is not None
    ]
    about = info.description or ""
    yield code(f"{prefix}{name}".upper()), code(shown) or "none", ", ".join(bounds), about


def _of_agent() -> Iterator[tuple[str, ...]]:
    about, hints = _described(AgentSettings), get_type_hints(AgentSettings, include_extras=True)
    for each in fields(AgentSettings):
        default = "" if each.default is MISSING else str(each.default)
        limits = next(
            (one for one in get_args(hints[each.name]) if isinstance(one, Limits)), Limits()
        )
        yield (
            code(f"{PREFIX}{each.name}".upper()),
            code(default) or "none",
            _limited(limits),
            about.get(each.name, ""),
        )


def _limited(limits: Limits) -> str:
    found = (("from", limits.least), ("above", limits.above), ("to", limits.most))
    return ", ".join(f"{word} {bound:g}" for word, bound in found if bound is not None)


def _described(declared: type[Any]) -> dict[str, str]:
    """Return the texts below the fields of a class."""
    [parsed] = ast.parse(inspect.getsource(declared)).body
    assert isinstance(parsed, ast.ClassDef)
    found = {}
    for field, below in zip(parsed.body, parsed.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = str(below.value.value)
    return found
