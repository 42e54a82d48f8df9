"""A unit over its failures: it ends, it is restarted, and it does without what made it fail."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import DeadLetter, RoundEnded
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.in_memory.transactions import restore
from shared.streams.stages import barriers as module
from shared.streams.stages import unit
from shared.streams.stages.hooks import CommitObserver, Hooks
from shared.streams.stages.stage import Processor, Round, Stage
from shared.streams.stages.unit_state import BEGINNINGS_KEY, FAILURES_KEY
from tests.support.deaths import SIMULATED, KilledError, die
from tests.support.fragile import Fragile, fragile
from tests.support.messaging import (
    CODEC,
    START_US,
    TOPICS,
    Counter,
    barriers,
    counting,
    encoded,
    payloads,
    submission,
)
from tests.unit.shared.streams.stages.test_early import STAGE as ENDS
from tests.unit.shared.streams.stages.test_early import Ends, finish

AFTER = 3
# A life that has passed something dies without a note of the place.
BEGUN_ELSEWHERE = 1
SIMULATED.add(os.getpid())


class Lives:
    """A stage that is started again whenever it ends, as a supervisor does."""

    def __init__(
        self, stage: Stage, after: int = AFTER, step: CommitObserver | None = None
    ) -> None:
        self.log = InMemoryLog()
        self._hooks = Hooks(step=step) if step else Hooks()
        self.deaths = 0
        self._stage = stage
        self._after = after
        self._runtime = self._start()

    def work(self, *, most_deaths: int = 20, closes_at_us: int = 0) -> None:
        """Until nothing is left to do, or it died too often (its last error is raised)."""
        while True:
            try:
                self._runtime.run_until_quiet()
                if closes_at_us:
                    self._runtime.close_rounds(self._stage.name, closes_at_us)
            except (Exception, KilledError):
                self.deaths += 1
                self._runtime.leave()
                self._runtime = self._start()
                if self.deaths > most_deaths:
                    raise
            else:
                return

    def upgrade(self, stage: Stage) -> None:
        self._runtime.leave()
        self._stage = stage
        self._runtime = self._start()

    def events(self, topic: str) -> list[Event]:
        return payloads(
            r for partition in TOPICS.partitions(topic) for r in self.log.read(partition, 0, 9_999)
        )

    @property
    def charged(self) -> list[str]:
        events = self.events("prices.charges")
        return sorted(e.payload.job_id for e in events if isinstance(e.payload, ChargeMade))

    @property
    def set_aside(self) -> set[int]:
        """Rounds of which the outputs say that nothing was decided in them."""
        ends = (each.payload for each in self.events("prices.charges"))
        return {end.round for end in ends if isinstance(end, RoundEnded) and end.set_aside}

    @property
    def letters(self) -> list[DeadLetter]:
        events = self.events("dlq.jobs.events")
        return [e.payload for e in events if isinstance(e.payload, DeadLetter)]

    @property
    def quarantined(self) -> list[str]:
        """Jobs whose submissions lie in the dead-letter queue."""
        return sorted(JobSubmitted.FromString(letter.value).job_id for letter in self.letters)

    @property
    def failures(self) -> list[bytes]:
        """What the changelogs still count."""
        kept = [restore(self.log, partition) for partition in self.changelogs]
        return [*self.begun, *(state[FAILURES_KEY] for state in kept if FAILURES_KEY in state)]

    @property
    def begun(self) -> list[bytes]:
        """Notes of where lives began."""
        kept = [restore(self.log, partition) for partition in self.changelogs]
        return [state[BEGINNINGS_KEY] for state in kept if BEGINNINGS_KEY in state]

    @property
    def changelogs(self) -> list[TopicPartition]:
        """Where the stage keeps its state."""
        return [TopicPartition(self._stage.changelog, number) for number in range(4)]

    def _start(self) -> EmbeddedRuntime:
        after, hooks = self._after, self._hooks
        return EmbeddedRuntime(
            self.log, [self._stage], codec=CODEC, hooks=hooks, quarantine_after=after
        )


def jobs(*names: str) -> list[NewRecord]:
    return encoded(*[submission(name, user=name.split("-")[-1]) for name in names])


def a_round(number: int, *names: str) -> list[NewRecord]:
    return [*jobs(*names), *barriers(number, "jobs.events")]


GOOD = tuple(f"good-{i}" for i in range(20))


def test_the_first_failures_end_the_process_and_the_next_life_does_without_the_cause() -> None:
    lives = Lives(fragile(single=True))
    lives.log.append(a_round(0, *GOOD, "poison-1", "also-good"))
    lives.work()
    assert lives.deaths == AFTER
    assert lives.charged == sorted([*GOOD, "also-good"])
    [letter] = lives.letters
    assert letter.kind == "quarantined"
    assert "a bug in the processor" in letter.reason
    assert "tests.support.fragile" in letter.stack
    assert len(letter.stack_digest) == 64
    assert lives.failures == []


def test_a_life_that_is_careful_needs_no_restart_for_the_next_poison() -> None:
    lives = Lives(fragile(single=True))
    for number in range(2):
        first = number * 30
        lives.log.append(a_round(number, *[f"poison-{first + i}" for i in range(30)]))
        lives.work()
    assert len(lives.letters) == 60
    assert lives.deaths == AFTER


def test_poison_in_combination_costs_one_of_the_pair() -> None:
    lives = Lives(fragile(single=True))
    lives.log.append(a_round(0, "pair-a-ada", "pair-x-bob", *GOOD, "pair-b-ada"))
    lives.work()
    assert len(lives.charged) == len(GOOD) + 2
    [left_out] = lives.quarantined
    assert left_out in ("pair-a-ada", "pair-b-ada")


def test_an_output_that_is_too_large_costs_the_event_that_asks_for_it() -> None:
    lives = Lives(fragile(single=True))
    lives.log.append(a_round(0, *GOOD, "big-1"))
    lives.work()
    assert (lives.quarantined, lives.charged) == (["big-1"], sorted(GOOD))


# Each trial of what kills forks, which takes long where the process of all tests has grown large.
IN_REST = pytest.mark.rest
# What the end of a round meets.
ENDINGS = pytest.mark.parametrize("kind", ["undecidable", pytest.param("fatal", marks=IN_REST)])


# How many lives it takes: who passes something first dies once without a note of the place.
@pytest.mark.parametrize(
    ("kind", "count_of_kind", "deaths"),
    [
        ("undecidable", 2, AFTER),
        pytest.param("fatal", 1, BEGUN_ELSEWHERE + AFTER, marks=IN_REST),
        pytest.param("fatal", 2, BEGUN_ELSEWHERE + AFTER, marks=IN_REST),
    ],
)
def test_a_round_that_fails_holds_the_jobs_that_make_it_fail(
    kind: str, count_of_kind: int, deaths: int
) -> None:
    failing = {f"{kind}-{number}" for number in range(count_of_kind)}
    lives = Lives(fragile(single=True))
    lives.log.append(jobs(*GOOD, *failing))
    lives.work()
    lives.log.append(barriers(0, "jobs.events"))
    lives.work()
    assert lives.deaths == deaths
    assert (lives.charged, lives.letters, lives.failures) == (sorted(GOOD), [], [])
    held = restore(lives.log, lives.changelogs[0])["held"]
    assert {*json.loads(held)} == failing


@ENDINGS
def test_a_round_by_the_clock_that_fails_holds_the_job_too(kind: str) -> None:
    lives = Lives(fragile(rounds=RoundSource.CLOCK))
    lives.log.append(jobs(*GOOD, f"{kind}-1"))
    lives.work(closes_at_us=START_US)
    lives.work(closes_at_us=START_US + 1)
    assert lives.deaths == AFTER
    assert (lives.charged, lives.letters, lives.failures) == (sorted(GOOD), [], [])


@ENDINGS
def test_where_the_processor_cannot_show_an_event_of_the_round_is_left_out(kind: str) -> None:
    lives = Lives(fragile(single=True, tells=False))
    lives.log.append(a_round(0, *GOOD, f"{kind}-1"))
    lives.work()
    assert (lives.quarantined, lives.charged) == ([f"{kind}-1"], sorted(GOOD))


@ENDINGS
def test_a_round_that_nothing_can_be_blamed_for_is_set_aside_and_its_state_is_kept(
    kind: str,
) -> None:
    lives = Lives(fragile(single=True, tells=False))
    lives.log.append(jobs("good-1", f"{kind}-1"))
    lives.work()
    lives.log.append(barriers(0, "jobs.events"))
    lives.work()
    for number in range(1, 4):
        lives.log.append(a_round(number, f"good-later-{number}"))
        lives.work()
    assert (lives.charged, lives.letters, lives.failures) == ([], [], [])
    assert lives.set_aside == {0, 1, 2, 3}
    lives.upgrade(repaired())
    lives.log.append(barriers(4, "jobs.events"))
    lives.work()
    later = [f"good-later-{number}" for number in range(1, 4)]
    assert lives.charged == sorted([f"{kind}-1", "good-1", *later])
    assert lives.set_aside == {0, 1, 2, 3}


def test_rounds_of_one_batch_that_nothing_can_be_blamed_for_are_all_set_aside() -> None:
    lives = Lives(fragile(rounds=RoundSource.CLOCK, tells=False))
    lives.log.append(jobs("good-1", "undecidable-1"))
    lives.work()
    for number in range(5):
        lives.work(closes_at_us=START_US + number, most_deaths=4 * AFTER)
    assert (lives.charged, lives.letters) == ([], [])
    assert lives.deaths == AFTER
    assert lives.set_aside == set(range(5))


def test_a_barrier_that_fails_in_hand_uses_up_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    right = module.check_number

    def check(barrier: RoundEnded, closed: Round | None, *, skips: bool) -> None:
        if barrier.round == 1:
            raise IndexError("a bug in reading a barrier")
        right(barrier, closed, skips=skips)

    monkeypatch.setattr(unit, "check_number", check)
    lives = Lives(fragile(single=True))
    for number in range(3):
        lives.log.append(a_round(number, f"good-{number}"))
        lives.work()
    assert (lives.deaths, lives.charged) == (AFTER, ["good-0", "good-1", "good-2"])
    [letter] = lives.letters
    assert (letter.kind, letter.headers["ce_type"]) == ("quarantined", b"coplace.v1.RoundEnded")
    assert lives.failures == []


def repaired() -> Stage:
    """The next release, which decides what the last one failed at."""

    class Repaired(Fragile):
        def end_round(self, ended: Round) -> Iterable[Publish]:
            waiting, self.waiting = self.waiting, {}
            return [self._charge(job, waiting[job], ended.ended_at_us) for job in sorted(waiting)]

    def create(_number: int, restored: Mapping[str, bytes]) -> Processor:
        waiting, pairs = json.loads(restored.get("state", b"[{}, []]"))
        return Repaired(waiting, set(pairs))

    return replace(fragile(single=True), create=create)


def test_what_fails_even_where_a_round_decides_nothing_ends_the_process_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Unkept(Fragile):
        def changes(self) -> Mapping[str, bytes | None]:
            raise RuntimeError("what is kept can't be written")

    lives = Lives(replace(fragile(single=True), create=lambda _number, _restored: Unkept()))
    lives.log.append(barriers(0, "jobs.events"))
    with pytest.raises(RuntimeError, match="can't be written"):
        lives.work(most_deaths=AFTER + 1)
    assert "fails whatever is left out" in capsys.readouterr().out


def test_a_failure_that_a_fresh_unit_does_not_have_costs_nothing() -> None:
    made = count()

    def create(_number: int, _restored: Mapping[str, bytes]) -> Counter:
        return Counter(bug_at="good-7" if next(made) <= AFTER else None)

    lives = Lives(replace(counting(single=True), create=create))
    lives.log.append(jobs(*GOOD))
    lives.work()
    assert (lives.deaths, lives.letters, lives.failures) == (AFTER, [], [])
    assert lives.charged == sorted(GOOD)


def test_what_was_counted_is_forgotten_when_it_passes() -> None:
    lives = Lives(fragile(single=True))
    lives.log.append(jobs("poison-1"))
    with pytest.raises(KeyError):
        lives.work(most_deaths=1)
    assert len(lives.failures) == 1
    lives.upgrade(counting(single=True))
    lives.work()
    assert (lives.failures, lives.charged) == ([], ["poison-1"])


@pytest.mark.parametrize(("job", "error"), [("poison-1", KeyError), ("deadly-1", KilledError)])
def test_who_never_isolates_goes_on_ending(job: str, error: type[BaseException]) -> None:
    lives = Lives(fragile(single=True), after=0)
    lives.log.append(jobs(job))
    with pytest.raises(error):
        lives.work(most_deaths=12)
    assert lives.letters == []
    assert lives.begun == []


@dataclass
class TripsOverEnds(Ends):
    """Ends where an end is joined to its submission."""

    trip: Callable[[], None] = die

    def handle(self, event: Event) -> Iterable[Publish]:
        if event.key in self.known:
            self.trip()
        return super().handle(event)


def fail() -> None:
    raise IndexError("a bug in joining")


@pytest.mark.parametrize(("trip", "deaths"), [(fail, AFTER), (die, BEGUN_ELSEWHERE + AFTER)])
def test_an_early_fact_that_ends_who_joins_it_is_the_one_that_is_left_out(
    trip: Callable[[], None], deaths: int
) -> None:
    def create(_number: int, restored: Mapping[str, bytes]) -> TripsOverEnds:
        return TripsOverEnds(set(restored), trip)

    lives = Lives(replace(ENDS, name="counting", create=create, rounds=RoundSource.BARRIERS))
    lives.log.append(encoded(finish()))
    lives.work()
    lives.log.append(encoded(submission("j0"), submission("other")))
    lives.work()
    assert lives.deaths == deaths
    [letter] = lives.letters
    assert (letter.kind, letter.offset) == ("quarantined", 0)
    assert letter.headers["ce_type"] == b"coplace.v1.JobFinished"


def test_what_kills_its_process_is_isolated_and_nothing_else() -> None:
    lives = Lives(fragile(single=True))
    lives.log.append(a_round(0, *GOOD, "deadly-1", "also-good", "poison-1", "deadly-2"))
    lives.work()
    assert lives.deaths == AFTER
    assert lives.charged == sorted([*GOOD, "also-good"])
    assert sorted(lives.quarantined) == ["deadly-1", "deadly-2", "poison-1"]
    killed = [letter for letter in lives.letters if "the process died: SIGKILL" in letter.reason]
    assert len(killed) == 2
    assert len({letter.stack_digest for letter in killed}) == 1
    assert lives.failures == []


def killed_so_often(times: int, folder: Path) -> Stage:
    """A stage whose process is killed at `good-9` so many times, children too: the kernel ends
    these first where somebody else takes the memory."""
    stage, deaths = fragile(single=True), folder / "deaths"
    deaths.touch()

    def create(number: int, restored: Mapping[str, bytes]) -> Processor:
        processor = stage.create(number, restored)
        right = processor.handle

        def handle(event: Event) -> Iterable[Publish]:
            submitted = event.payload
            is_there = isinstance(submitted, JobSubmitted) and submitted.job_id == "good-9"
            if is_there and deaths.stat().st_size < times:
                deaths.write_bytes(deaths.read_bytes() + b"x")
                die()
            return right(event)

        processor.handle = handle  # type: ignore[method-assign]
        return processor

    return replace(stage, create=create)


def test_a_child_that_passes_clears_who_was_in_hand_when_others_died(tmp_path: Path) -> None:
    one_less_than_blamed = AFTER + 1 + AFTER - 1
    lives = Lives(killed_so_often(one_less_than_blamed, tmp_path))
    lives.log.append(a_round(0, *GOOD))
    lives.work()
    assert (lives.deaths, lives.charged, lives.letters) == (AFTER, sorted(GOOD), [])


class Killer:
    """Kills the workers of a process at points that were drawn, whatever they do there."""

    def __init__(self, draws: Sequence[bool]) -> None:
        self._draws = iter(draws)

    def reached(self, _point: str) -> None:
        if next(self._draws, False):
            die()


@settings(max_examples=40)
@given(draws=st.lists(st.booleans(), max_size=200), single=st.booleans())
def test_whoever_kills_wherever_has_nothing_isolated(draws: list[bool], *, single: bool) -> None:
    lives = Lives(fragile(single=single), step=Killer(draws))
    for number in range(3):
        lives.log.append(a_round(number, *[f"good-{number}-{i}" for i in range(10)]))
        lives.work(most_deaths=999)
    assert (len(lives.charged), lives.letters, lives.failures) == (30, [], [])


@settings(max_examples=25)
@given(data=st.data())
def test_wherever_what_fails_lies_nothing_else_is_lost(data: st.DataObject) -> None:
    nothing_else_is_lost(data, ("poison", "undecidable", "pair"))


@IN_REST
@settings(max_examples=4)
@given(data=st.data())
def test_wherever_what_kills_lies_nothing_else_is_lost(data: st.DataObject) -> None:
    nothing_else_is_lost(data, ("deadly", "fatal", "poison"))


def nothing_else_is_lost(data: st.DataObject, kinds: tuple[str, ...]) -> None:
    names = [f"good-{i}" for i in range(12)]
    for number, kind in enumerate(data.draw(st.lists(st.sampled_from(kinds), max_size=4))):
        user = "same" if kind == "pair" else str(number)
        names.insert(data.draw(st.integers(0, len(names))), f"{kind}-{number}-{user}")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(names)), max_size=3)))
    lives = Lives(fragile(single=data.draw(st.booleans())))
    for number, (begin, end) in enumerate(pairwise([0, *cuts, len(names)])):
        lives.log.append(a_round(number, *names[begin:end]))
        lives.work(most_deaths=99)
    assert {name for name in names if name.startswith("good")} <= set(lives.charged)
    assert all(name.startswith(kinds) for name in lives.quarantined)
