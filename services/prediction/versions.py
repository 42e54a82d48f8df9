"""Versions of a model of trees: compared with those in force, and put into force."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.prediction.publish import SOURCE
from shared.streams.state.state import State, Table

# Versions that can be put into force again.
MOST_VERSIONS: Final = 5


class Wish(NamedTuple):
    """What somebody wants in force from the end of the round on, and why."""

    version: str
    who: str
    reason: str
    is_pinned: bool


class VersionChoice(NamedTuple):
    """Versions in force and in its shadow, by name, empty where there is none; those that were in
    force before, the newest last; how far the shadow is: cases, and sums of its errors and of those
    of what is in force; the number of the case at which trees were grown last; and sums of the
    errors of what holds without any version, and of squares of how much less the shadow erred than
    what is in force."""

    in_force: str = ""
    shadow: str = ""
    former: tuple[str, ...] = ()
    is_pinned: bool = False
    cases: int = 0
    errors: float = 0.0
    errors_in_force: float = 0.0
    grown_at: int = 0
    wish: Wish | None = None
    errors_without: float = 0.0
    squares: float = 0.0

    def with_case(self, error: float, in_force: float, without: float) -> "VersionChoice":
        """Return the choice with one case more: what the shadow, what is in force and what applies
        without any erred."""
        return self._replace(
            cases=self.cases + 1,
            errors=self.errors + error,
            errors_in_force=self.errors_in_force + in_force,
            errors_without=self.errors_without + without,
            squares=self.squares + (in_force - error) * (in_force - error),
        )

    def without_cases(self) -> "VersionChoice":
        """Return the choice with a shadow that begins anew."""
        return self._replace(
            cases=0, errors=0.0, errors_in_force=0.0, errors_without=0.0, squares=0.0
        )

    def is_better(self, standard_errors: float) -> bool:
        """Return whether the shadow erred less than what is in force, by more than so many standard
        errors of the mean difference, and no more than what applies without any version."""
        less = self.error_in_force - self.error
        variance = self.squares / self.cases - less * less
        is_clear = less * less * self.cases > standard_errors * standard_errors * variance
        return less > 0 and is_clear and self.errors <= self.errors_without

    @property
    def is_none_better(self) -> bool:
        """Return whether what is in force erred more than what applies without any version."""
        return bool(self.in_force) and self.errors_without < self.errors_in_force

    @property
    def error(self) -> float:
        """Return the mean error of the shadow."""
        return self.errors / self.cases

    @property
    def error_in_force(self) -> float:
        """Return the mean error of what is in force, on the same cases."""
        return self.errors_in_force / self.cases


class VersionMessage(Protocol):
    """A version as it is published."""

    version: str


Published = TypeVar("Published", bound=VersionMessage)
Trees = TypeVar("Trees")


class Versions(ABC, Generic[Published, Trees]):
    """Folds how right versions turned out to be; publishes the results at the end of a round."""

    # What the model is called, what it is a number of, and what holds without any version.
    name: ClassVar[str]
    cases: ClassVar[str]
    nothing: ClassVar[str]
    # How many standard errors a version has to be better by.
    clearly: ClassVar[float] = 0.0
    kept: ClassVar[type[Any]]

    def __init__(self, state: State) -> None:
        self._versions: Table[Published] = state.table(self.name, self.kept)
        self._kept_choice = state.value(f"{self.name}-choice", VersionChoice)
        self._choice = self._kept_choice.get() or VersionChoice()
        self._forget_other_origin()
        self.in_force = self._evaluated(self._choice.in_force)
        self._shadow = self._evaluated(self._choice.shadow)

    def pin(self, version: str, who: str, reason: str) -> None:
        """Request that a version be in force, and stay; empty: that what is in force stay no
        longer. Raises RejectedError for one that is not known any more."""
        if version and version not in self._versions:
            known = ", ".join(key for key, _ in self._versions.items()) or "none"
            raise RejectedError("version", f"must be one of those that are kept: {known}")
        wish = Wish(version or self._wanted, who, reason, is_pinned=bool(version))
        self._choose(self._choice._replace(wish=wish))

    def roll_back(self, who: str, reason: str) -> None:
        """Request what was in force before. Raises RejectedError where nothing was."""
        if not self._choice.in_force:
            raise RejectedError("model", f"{self.name}: no version is in force")
        before = self._choice.former[-1] if self._choice.former else ""
        self._choose(self._choice._replace(wish=Wish(before, who, reason, is_pinned=False)))

    @abstractmethod
    def evaluated(self, message: Published) -> Trees:
        """Return what evaluates a version."""

    @abstractmethod
    def is_of_this_origin(self, message: Published) -> bool:
        """Return whether its columns mean the same as here."""

    @abstractmethod
    def number(self, message: Published) -> int:
        """Return the number of the newest case that a version was grown of."""

    @abstractmethod
    def judgement(self, choice: VersionChoice) -> Message:
        """Return what is published when the time of a version in the shadow is over."""

    @abstractmethod
    def word(self, wish: Wish, trees: Published | None) -> Message:
        """Return what is published when a version, or none, is put into force."""

    @property
    def _wanted(self) -> str:
        return self._choice.wish.version if self._choice.wish else self._choice.in_force

    def _held(self, errors: Iterable[tuple[float, float, float]], enough: int) -> list[Message]:
        """The shadow to cases, by its errors, those of what is in force and those of what holds
        without any version: of `enough` cases it is judged."""
        choice = self._choice
        for case in errors:
            choice = choice.with_case(*case)
        if choice != self._choice:
            self._choose(choice)
        return self._judge() if choice.cases >= enough else []

    def _judge(self) -> list[Message]:
        """Put the shadow into force where it is better, unless what is there is pinned; else it is
        let go of, and what is in force too where none is better."""
        choice = self._choice
        judged = self.judgement(choice)
        self._let_shadow_go()
        version = choice.shadow if choice.is_better(self.clearly) else ""
        if not (version or choice.is_none_better) or choice.is_pinned or choice.wish is not None:
            return [judged]
        error = choice.error if version else choice.errors_without / choice.cases
        than = f"{choice.in_force or self.nothing} {100 * choice.error_in_force:.2f} %"
        of = f"{choice.cases} {self.cases} that neither had seen"
        reason = f"{100 * error:.2f} % error of {of}, {than}"
        self._choose(self._choice._replace(wish=Wish(version, SOURCE, reason, is_pinned=False)))
        return [judged]

    def _put_wish_into_force(self) -> list[Message]:
        choice, wish = self._choice, self._choice.wish
        if wish is None:
            return []
        former = choice.former
        if wish.version != choice.in_force:
            goes_back = bool(former) and former[-1] == wish.version
            former = former[:-1] if goes_back else (*former, choice.in_force)
        chosen = choice._replace(in_force=wish.version, former=former, is_pinned=wish.is_pinned)
        self._choose(chosen._replace(wish=None))
        self._let_shadow_go()
        self.in_force = self._evaluated(wish.version)
        return [self.word(wish, self._versions.get(wish.version))]

    def _let_shadow_go(self) -> None:
        """What was to be compared with something else is compared with nothing."""
        self._choose(self._choice.without_cases()._replace(shadow=""))
        self._shadow = None

    def _is_due(self, number: int, first: int, share: float, most: int) -> bool:
        """Of `first` cases, then of as much more as this share, or as `most`."""
        if self._choice.shadow or number < first:
            return False
        return number - self._choice.grown_at >= min(share * self._choice.grown_at, most)

    def _take(self, message: Published) -> Published:
        """The next version, which is in the shadow from here on."""
        self._versions.put(message.version, message)
        self._let_shadow_go()
        number = self.number(message)
        self._choose(self._choice._replace(shadow=message.version, grown_at=number))
        self._shadow = self.evaluated(message)
        return message

    def _forget(self) -> None:
        """Keep what is in force, in its shadow, what was in force, and of the others the newest."""
        choice = self._choice
        if len(self._versions) <= MOST_VERSIONS:
            return
        used = {choice.in_force, choice.shadow}
        others = [each for each in self._versions.values() if each.version not in used]
        others.sort(key=lambda each: (each.version in choice.former, self.number(each)))
        for each in others[: len(self._versions) - MOST_VERSIONS]:
            self._versions.drop(each.version)
        kept = tuple(each for each in choice.former if not each or each in self._versions)
        self._choose(choice._replace(former=kept))

    def _evaluated(self, version: str) -> Trees | None:
        message = self._versions.get(version)
        return self.evaluated(message) if message else None

    def _choose(self, choice: VersionChoice) -> None:
        self._choice = choice
        self._kept_choice.put(choice)

    def _forget_other_origin(self) -> None:
        """Trees that another version grew are of columns that mean something else here."""
        items = list(self._versions.items())
        foreign = [key for key, message in items if not self.is_of_this_origin(message)]
        for key in foreign:
            self._versions.drop(key)
        if foreign:
            self._choose(VersionChoice())
