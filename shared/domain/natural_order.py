"""The order of names in which their numbers compare as numbers: job 4 goes before job 22."""

import re
from typing import Final

_NUMBERS: Final = re.compile(r"([0-9]+)")

NaturalKey = tuple[tuple[str | tuple[int, str], ...], str]


def natural(name: str) -> NaturalKey:
    """Return the key by which names sort. Names that differ in leading zeros alone sort as texts.

    Texts and numbers take turns in it, a text first, so that like compares with like. A number is
    its length and its digits, without leading zeros: of any length it costs no arithmetic.
    """
    parts = _NUMBERS.split(name)
    return tuple(_number(part) if i % 2 else part for i, part in enumerate(parts)), name


def _number(digits: str) -> tuple[int, str]:
    stripped = digits.lstrip("0")
    return len(stripped), stripped
