"""What fields of settings and files may hold, said beside each field and checked on
construction."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Final, Self, get_args, get_type_hints

from coplace_client.errors import RejectedError, WrongSettingsError

# A value is shown so far: enough to recognise it.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Limits:
    """What a field may be: a number from `least`, or above `above`, up to `most`; a text of `least`
    to `most` characters; one of `among`."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()

    def problem(self, value: object) -> str:
        """Return what is wrong with a value; empty for nothing."""
        if self.among and value not in self.among:
            return f"must be one of {', '.join(self.among)}"
        if isinstance(value, str):
            return self._problem(len(value), " characters")
        return self._problem(value, "") if isinstance(value, int | float) else ""

    def _problem(self, size: float, unit: str) -> str:
        if size != size:
            return "must be a number"
        if self.least is not None and size < self.least:
            return f"must be at least {self.least:g}{unit}"
        if self.above is not None and size <= self.above:
            return f"must be above {self.above:g}{unit}"
        if self.most is not None and size > self.most:
            return f"must be at most {self.most:g}{unit}"
        return ""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a field is declared to be."""

    of: type
    is_optional: bool
    limits: Limits

    def of_json(self, value: object) -> object:
        """The value that JSON holds. Raises ValueError."""
        if value is None and self.is_optional:
            return None
        taken = {float: (int, float), Path: (str,)}.get(self.of, (self.of,))
        if not isinstance(value, taken) or isinstance(value, bool):
            raise ValueError
        return self.of(value)


_KINDS: Final[dict[Any, Mapping[str, _Kind]]] = {}


def _kinds(checked: Any) -> Mapping[str, _Kind]:
    """The fields of a class, by name, worked out once: job files are read every second."""
    if checked not in _KINDS:
        hints = get_type_hints(checked, include_extras=True)
        _KINDS[checked] = {each.name: _kind(hints[each.name]) for each in fields(checked)}
    return _KINDS[checked]


def _kind(hint: Any) -> _Kind:
    """`Annotated[of, Limits(...)]` or `of`, which may be optional."""
    plain, limits = hint, Limits()
    if hasattr(hint, "__metadata__"):
        plain, [limits] = hint.__origin__, hint.__metadata__
    among = [each for each in get_args(plain) or (plain,) if each is not NoneType]
    return _Kind(among[0], len(among) < len(get_args(plain)), limits)


class Checked:
    """A frozen dataclass that checks the limits of its fields. Raises RejectedError."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():
            value = getattr(self, name)
            if problem := kind.limits.problem(value):
                raise RejectedError(name, f"{problem}, got {str(value)[:_SHOWN]!r}")

    @classmethod
    def of_environment(cls, prefix: str, environment: Mapping[str, str]) -> Self:
        """Read the fields from the variables whose names begin so. Raises WrongSettingsError."""
        given = {}
        for name, kind in _kinds(cls).items():
            text = environment.get(variable := f"{prefix}{name}".upper())
            if text is None:
                continue
            try:
                given[name] = kind.of(text)
            except ValueError:
                raise _wrong(variable, text, f"must be of type {kind.of.__name__}") from None
        try:
            return cls(**given)
        except RejectedError as error:
            variable, value = f"{prefix}{error.field}".upper(), given.get(error.field, "")
            raise _wrong(variable, value, error.problem) from None

    @classmethod
    def of_json(cls, data: object) -> Self:
        """Read the fields from a JSON object. Raises RejectedError."""
        kinds, given = _kinds(cls), {}
        if not isinstance(data, dict):
            raise RejectedError("file", "must be a JSON object")
        for name, value in data.items():
            if name not in kinds:
                raise RejectedError(str(name)[:_SHOWN], "is not known here")
            try:
                given[name] = kinds[name].of_json(value)
            except ValueError:
                raise RejectedError(name, f"must be of type {kinds[name].of.__name__}") from None
        for each in fields(cls):  # type: ignore[arg-type]
            if each.name not in given and each.default is each.default_factory is MISSING:
                raise RejectedError(each.name, "is missing")
        return cls(**given)

    def as_json(self) -> dict[str, object]:
        """Return all fields that differ from their default."""
        given = {}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value != each.default:
                given[each.name] = str(value) if isinstance(value, Path) else value
        return given


def _wrong(variable: str, value: object, problem: str) -> WrongSettingsError:
    shown = str(value)[:_SHOWN]
    return WrongSettingsError(f"{variable}={shown}: {problem}: correct it, or leave it out")
