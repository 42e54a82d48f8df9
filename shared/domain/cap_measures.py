"""What may be done to jobs that run where caps of power fall."""

from enum import StrEnum


class Measure(StrEnum):
    """What may be done where more is committed under a cap than it allows; nothing starts then in
    any case."""

    LOWER_FREQUENCY = "lower-frequency"
    SUSPEND = "suspend"
    END = "end"


def measures_of(text: str) -> tuple[Measure, ...]:
    """Parse measures in their order, from their names with commas between. Raises ValueError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in [*Measure]]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"must be some of {', '.join(Measure)}, each once, got {text!r}")
    return tuple(map(Measure, names))
