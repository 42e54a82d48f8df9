"""The rules that placement began with, as a file beside a record."""

from pathlib import Path
from typing import Final

from coplace_client.errors import UnusableError
from shared.catalogue.policy_settings import SETTINGS, PolicySettings
from shared.process.folders import write_csv
from shared.process.rows import read_rows

RULES: Final = "rules.csv"
_COLUMNS: Final = ("setting", "value")


def write_rules(folder: Path, rules: PolicySettings) -> None:
    """Write a line for each setting."""
    rows = ((name, each.write(getattr(rules, name))) for name, each in SETTINGS.items())
    write_csv(folder / RULES, _COLUMNS, rows)


def read_rules(path: Path) -> PolicySettings:
    """Read such a file; a setting without a line has its default. Raises OSError when the file
    cannot be read, UnusableError for a setting that does not exist, and RejectedError for a value
    that it cannot have."""
    values = {}
    for row in read_rows(path, _COLUMNS):
        name = row.text("setting")
        if name not in SETTINGS:
            raise UnusableError(
                f"{name[:40]!r} in {row.where} is not a setting: see `coplace policy`"
            )
        with row.named():
            values[name] = SETTINGS[name].parse(row.text("value", ""))
    return PolicySettings(**values)
