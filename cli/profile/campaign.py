"""What a campaign measures: programs, where they run, how often; and in which order."""

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from coplace_client.errors import UnusableError
from shared.process.plain_numbers import PlainModel
from shared.process.user_files import read_yaml

REPORTER: Final = "reporter"
ALONE: Final = ""
_CORES: Final = "{cores}"

Cores = Annotated[tuple[int, ...], Field(min_length=1, max_length=1_024)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


class Pinning(PlainModel):
    """The cores of the measured program, alone too, and of the program beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    primary: Cores
    beside: Cores


class Campaign(PlainModel):
    """The file of a campaign. Commands are split as a shell does, without its other powers;
    `{cores}` in them becomes the numbers of their cores."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    applications: Mapping[Name, str] = Field(min_length=1, max_length=200)
    bubbles: Mapping[Annotated[float, Field(gt=0, lt=1e6)], str] = {}
    reporter: str = ""
    placements: Mapping[Name, Pinning] = Field(min_length=1, max_length=20)
    repetitions: int = Field(3, ge=1, le=100)
    most_s: float = Field(600, gt=0, le=86_400)

    @model_validator(mode="after")
    def _is_runnable(self) -> Self:
        taken = {REPORTER, *map(bubble_name, self.bubbles)} & self.applications.keys()
        if taken:
            raise ValueError(f"{min(taken)!r} is a reserved name: choose another one")
        for name, command in self.commands.items():
            if not shlex.split(command):
                raise ValueError(f"{name} has no command")
        return self

    @property
    def commands(self) -> Mapping[str, str]:
        """Return the commands of applications, bubbles and the reporter, by name."""
        bubbles = {bubble_name(mib): command for mib, command in self.bubbles.items()}
        reporter = {REPORTER: self.reporter} if self.reporter else {}
        return {**self.applications, **bubbles, **reporter}

    @property
    def digest(self) -> str:
        """Return a digest of the campaign, so that another does not go on with what it measured."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def bubble_name(mib: float) -> str:
    """Return the name of a bubble among the co-runners."""
    return f"bubble of {mib:g} MiB"


def split_command(command: str, cores: Sequence[int]) -> list[str]:
    """Return a command as it is started on these cores."""
    found: list[str] = []
    for word in shlex.split(command):
        found += map(str, cores) if word == _CORES else [word]
    return found


def read_campaign(path: Path) -> Campaign:
    """Raises UnusableError naming what is wrong."""
    try:
        return Campaign.model_validate(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        message = first["msg"].removeprefix("Value error, ")
        raise UnusableError(f"{path}: {place}: {message}") from None


class ProfiledRun(NamedTuple):
    """One program from its start to its end, alone or beside another that is restarted. `take`
    distinguishes runs of a repetition that are the same otherwise."""

    config: str
    repetition: int
    primary: str
    beside: str
    take: int = 0


def runs(campaign: Campaign) -> Iterator[ProfiledRun]:
    """Yield all runs of a campaign: repetitions outermost, and each program alone before and behind
    its runs beside others, so that what changes on the machine changes both."""
    apps = list(campaign.applications)
    beside = [*apps, *map(bubble_name, campaign.bubbles)]
    for repetition in range(campaign.repetitions):
        # Each repetition in another order: nobody always comes behind the same.
        turned = apps[repetition % len(apps) :] + apps[: repetition % len(apps)]
        for config in campaign.placements:
            for primary in turned:
                others = (ProfiledRun(config, repetition, primary, each) for each in beside)
                yield from _enclosed(config, repetition, primary, others)
            if campaign.reporter:
                others = (ProfiledRun(config, repetition, REPORTER, each) for each in turned)
                yield from _enclosed(config, repetition, REPORTER, others)


def _enclosed(
    config: str, repetition: int, primary: str, others: Iterator[ProfiledRun]
) -> Iterator[ProfiledRun]:
    yield ProfiledRun(config, repetition, primary, ALONE, 0)
    yield from others
    yield ProfiledRun(config, repetition, primary, ALONE, 1)
