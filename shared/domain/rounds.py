"""What closes rounds."""

from enum import StrEnum


class RoundSource(StrEnum):
    """What closes the rounds of a stage."""

    BARRIERS = "barriers"
    CLOCK = "clock"
