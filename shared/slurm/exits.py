"""How the script of a job ended, in the forms of Slurm's releases: pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from shared.slurm.answers import number

# As jobcomp and sacct write it: the exit code, and the signal.
_FORM: Final = re.compile(r"(\d{1,3}):(\d{1,3})")
_MOST_CODE: Final = 255
_MOST_SIGNAL: Final = 127


def exit_text(shown: Any) -> str:
    """Return an exit as jobcomp/kafka has it, of what JSON has: the status of `wait`, or a code
    and a signal; empty where it is neither."""
    if not isinstance(shown, Mapping) or "return_code" not in shown:
        status = number(shown)
        return "" if status is None else f"{status >> 8 & _MOST_CODE}:{status & _MOST_SIGNAL}"
    signal = shown.get("signal")
    of = signal if isinstance(signal, Mapping) else {}
    by = number(of.get("id", of.get("signal_id")))
    return f"{number(shown['return_code']) or 0}:{by or 0}"


def exit_of(text: str) -> tuple[int, int]:
    """Return the exit code and the signal of such a text; 0 where there is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return 0, 0
    code, signal = int(found[1]), int(found[2])
    return (code if code <= _MOST_CODE else 0), (signal if signal <= _MOST_SIGNAL else 0)
