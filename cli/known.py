"""Names that commands take, against those that there are: an unknown one is no empty answer."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from coplace_client.errors import UnusableError
from shared.domain.natural_order import natural

# So many are named; of more, those that are spelt most like it.
_MOST_NAMED: Final = 10
_SHOWN: Final = 80


class UnknownNameError(UnusableError):
    """A command named something that there is not."""


def require_known(kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
    """Raise UnknownNameError unless `name` is among those that are known: it names these, and
    `hint` says where all are listed."""
    names = set(known)
    if name not in names:
        told = f"known are {_named(name, names)}" if names else "none is known so far"
        where = f" ({hint})" if hint else ""
        raise UnknownNameError(f"there is no {kind} {name[:_SHOWN]!r}: {told}{where}")


def _named(name: str, known: Collection[str]) -> str:
    if len(known) <= _MOST_NAMED:
        return ", ".join(sorted(known, key=natural))
    alike = get_close_matches(name, known, _MOST_NAMED, 0.0)
    return f"{', '.join(sorted(alike, key=natural))} and {len(known) - len(alike):,} more"
