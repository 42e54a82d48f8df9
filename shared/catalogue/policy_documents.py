"""What follows from the declarations of the policy's settings: their reference, and schemas."""

from collections.abc import Iterator
from typing import Any, Final

from coplace_client.checks import readable
from shared.catalogue.policy_settings import SETTINGS, variable
from shared.catalogue.setting import DeclaredSetting
from shared.domain.cap_measures import Measure

_TYPES: Final = {bool: "boolean", int: "integer", float: "number"}
_HEAD: Final = """# Settings of the policy

Placement decides by these settings, each within its bounds. A process is started with variables
that are called `COPLACE_PLACEMENT_` and the name in capitals; a planner reads the same. Placement
takes all but those marked *at the start* from `coplace policy set` while it runs. This page is
generated from `shared/catalogue/policy_settings.py` by `make settings`.

| setting | default | from | to | unit | what it is | why these bounds |
|---|---|---|---|---|---|---|"""


def reference() -> str:
    """Return the page that says what each setting is, in Markdown."""
    return "\n".join([_HEAD, *map(_row, SETTINGS.values()), ""])


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings, of which a form can be made."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of the policy",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _property(each) for name, each in SETTINGS.items()},
    }


def variables() -> dict[str, Any]:
    """Return the JSON Schema of a process's environment as far as it has settings; values may be
    given as texts."""
    return {
        "description": "Variables of docs/policy-settings.md",
        "properties": {variable(name): _of_variable(each) for name, each in SETTINGS.items()},
    }


def _row(setting: DeclaredSetting) -> str:
    default = setting.write(setting.default)
    least, most, why = "", "", ""
    if bound := setting.bound:
        least, most, why = readable(bound.least), readable(bound.most), bound.why
    about = f"*At the start*. {setting.about}" if setting.at_start else setting.about
    if setting.choices:
        about = f"{about}: {', '.join(f'`{each}`' for each in setting.choices)}"
    cells = (f"`{setting.name}`", f"`{default}`", least, most, setting.unit, about, why)
    return f"| {' | '.join(cells)} |"


def _property(setting: DeclaredSetting) -> dict[str, Any]:
    is_list = setting.is_list
    extra = {"x-unit": setting.unit} if setting.unit else {}
    return {
        "title": setting.name,
        "description": setting.about,
        "type": _TYPES.get(setting.kind, "string"),
        "default": setting.write(setting.default) if is_list else setting.default,
        **dict(_limits(setting)),
        **extra,
        "x-variable": variable(setting.name),
        "x-declarable": not setting.at_start,
    }


def _of_variable(setting: DeclaredSetting) -> dict[str, Any]:
    kind = _TYPES.get(setting.kind)
    return {
        "description": setting.about,
        "type": [kind, "string"] if kind else "string",
        **dict(_limits(setting)),
    }


def _limits(setting: DeclaredSetting) -> Iterator[tuple[str, Any]]:
    if setting.bound:
        yield "minimum", setting.bound.least
        yield "maximum", setting.bound.most
    elif setting.choices:
        yield "enum", [*setting.choices]
    elif setting.is_list:
        one = f" *({'|'.join(Measure)}) *"
        yield "pattern", f"^({one}(,{one})*)?$"
