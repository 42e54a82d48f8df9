"""One setting as it is declared: what it is called, what it may be, and what it is for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, TypeVar, get_origin

from coplace_client.bounds import Bound
from coplace_client.errors import RejectedError
from coplace_client.numbers import is_number
from shared.domain.cap_measures import measures_of

Value = TypeVar("Value")

_BOOLEANS: Final = {"true": True, "false": False}
# A value is shown so far: enough to recognise it.
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """The declaration of a setting. `kind` is bool, int, float, an enumeration of names, or a tuple
    of measures. One that is `at_start` alone cannot be declared while placement runs."""

    name: str
    kind: Any
    default: Any
    about: str
    bound: Bound | None
    at_start: bool

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the names of which it is one; none where it is something else."""
        return tuple(self.kind) if _is_choice(self.kind) else ()

    @property
    def is_list(self) -> bool:
        """Return whether several names are given, with commas between."""
        return get_origin(self.kind) is tuple

    @property
    def unit(self) -> str:
        """Return the unit of a quantity; empty for a number without one, and for what is not a
        number."""
        return self.bound.unit if self.bound else ""

    def parse(self, text: str) -> Any:
        """Return the value that a text says. Raise RejectedError by the setting's name."""
        if self.kind is bool:
            value = _BOOLEANS.get(text.lower())
            if value is None:
                raise self._refusal(f"must be true or false, got {text[:_SHOWN]!r}")
            return value
        if self.choices:
            if text not in self.choices:
                known = ", ".join(self.choices)
                raise self._refusal(f"must be one of {known}, got {text[:_SHOWN]!r}")
            return self.kind(text)
        if self.is_list:
            try:
                return measures_of(text)
            except ValueError as error:
                raise self._refusal(str(error)) from None
        return self._number(text)

    def require(self, value: Any) -> None:
        """Raise RejectedError unless a number lies within its bound."""
        if self.bound:
            self.bound.require(self.name, value)

    def require_plain(self, text: str) -> None:
        """Raise RejectedError unless a number is written in the digits 0 to 9."""
        if self.kind in (int, float) and not is_number(text):
            raise self._refusal(f"must be a number in the digits 0 to 9, got {text[:_SHOWN]!r}")

    def write(self, value: Any) -> str:
        """Return a value in the words that `parse` reads."""
        if self.kind is bool:
            return str(value).lower()
        if self.kind is float:
            return f"{value:.15g}"
        return ",".join(value) if self.is_list else str(value)

    def _number(self, text: str) -> float:
        try:
            value: float = self.kind(text)
        except ValueError:
            value = -1
            if self.kind is float:
                raise self._refusal(f"must be a number, got {text[:_SHOWN]!r}") from None
        if self.kind is int and value < 0:
            raise self._refusal(f"must be a count, got {text[:_SHOWN]!r}")
        self.require(value)
        return value

    def _refusal(self, problem: str) -> RejectedError:
        return RejectedError(self.name, problem)


def setting(
    default: Value, about: str, bound: Bound | None = None, *, at_start: bool = False
) -> Value:
    """Declare a field of a dataclass as a setting; a number has a bound."""
    metadata = {"about": about, "bound": bound, "at_start": at_start}
    found: Value = field(default=default, metadata=metadata)
    return found


def settings_of(declared: type) -> Mapping[str, DeclaredSetting]:
    """Return the settings that the fields of a dataclass declare, by their names."""
    return {
        each.name: DeclaredSetting(each.name, each.type, each.default, **each.metadata)
        for each in fields(declared)
    }


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)
