"""The forms of Slurm's JSON, which its releases number: pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from shared.slurm.answers import mapping, text

# Slurm 22.05 and 26.05.
_OLDEST: Final = (0, 0, 38)
_NEWEST: Final = (0, 0, 45)
NEWEST_FORM: Final = ".".join(map(str, _NEWEST))
_FORM: Final = re.compile(r"v(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_KNOWN: Final = f"Coplace knows v{'.'.join(map(str, _OLDEST))} to v{NEWEST_FORM}"
_TO_DO: Final = (
    "install a release of Coplace that knows it, or an older Slurm (docs/how-to/slurm.md)"
)


def unknown_form(shown: Mapping[str, Any]) -> str:
    """Return why a form is none of those that are known, in words; empty where it is one, or says
    nothing of it."""
    said = _said(shown)
    found = _FORM.search(said)
    if found is None or _OLDEST <= tuple(map(int, found.groups())) <= _NEWEST:
        return ""
    return f"{_release(shown)} writes {said}, and {_KNOWN}: {_TO_DO}"


def unreadable_jobs(shown: Mapping[str, Any]) -> str:
    """Return in words that no job that a form has can be read."""
    said = _said(shown) or "JSON of no known form"
    lacks = "in which no job has a number, a state and a time"
    return f"{_release(shown)} writes {said}, {lacks}: {_TO_DO}"


def _said(shown: Mapping[str, Any]) -> str:
    plugin = mapping(mapping(shown, "meta"), "plugin")
    return (text(plugin.get("data_parser")) or text(plugin.get("type")))[:80]


def _release(shown: Mapping[str, Any]) -> str:
    meta = mapping(shown, "meta")
    of = mapping(meta, "slurm") or mapping(meta, "Slurm")
    return f"Slurm {text(of.get('release'))[:40] or 'of an unknown release'}"
