"""Jobs are looked at once for all that ask, and anew where this process changed them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from services.slurm.adapters.looks import SlurmLooks
from services.slurm.model.jobs import SlurmJob


class ShownSlurm:
    """Shows its jobs, those of a number alone where it can, and counts the looks."""

    def __init__(self, *numbers: int, shows_all: bool = False) -> None:
        self.numbers, self.shows_all, self.looks = list(numbers), shows_all, 0

    def jobs(self, number: int = 0) -> list[SlurmJob]:
        self.looks += 1
        is_wanted = not number or self.shows_all
        return [
            SlurmJob({"job_id": each, "array_job_id": 0})
            for each in self.numbers
            if is_wanted or each == number
        ]


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def looks_at(slurm: ShownSlurm, clock: Clock) -> SlurmLooks:
    return SlurmLooks(slurm, clock)  # type: ignore[arg-type]


def numbers(found: object) -> list[int]:
    assert isinstance(found, list)
    return [job.job_id for job in found]


def found(looks: SlurmLooks, number: int) -> list[int]:
    return looks.find(number, lambda shown: numbers(list(shown)) or None) or []


def test_a_look_at_all_jobs_serves_who_asks_for_one_of_them() -> None:
    slurm, clock = ShownSlurm(17, 18), Clock()
    looks = looks_at(slurm, clock)
    assert numbers(looks.all()) == [17, 18]
    clock.now_s += 2.9
    assert (found(looks, 17), slurm.looks) == ([17], 1)
    clock.now_s += 0.2
    assert (found(looks, 17), slurm.looks) == ([17], 2)


def test_a_job_that_came_behind_the_look_is_asked_for() -> None:
    slurm = ShownSlurm(17)
    looks = looks_at(slurm, Clock())
    looks.all()
    slurm.numbers.append(18)
    assert (found(looks, 18), slurm.looks) == ([18], 2)
    assert found(looks, 19) == []


def test_a_job_that_was_changed_is_asked_for_until_a_look_began_behind_that() -> None:
    slurm, clock = ShownSlurm(17, 18), Clock()
    looks = looks_at(slurm, clock)
    [job, _] = looks.all()
    with looks.changing(job):
        clock.now_s += 0.1
        looks.all()  # it may have come before the change
        clock.now_s += 0.1
    slurm.looks = 1
    assert (found(looks, 17), slurm.looks) == ([17], 2)
    assert (found(looks, 18), slurm.looks) == ([18], 2)
    clock.now_s += 0.1
    looks.all()
    assert (found(looks, 17), slurm.looks) == ([17], 3)


def test_where_slurm_shows_all_jobs_whatever_is_asked_that_is_a_look() -> None:
    slurm = ShownSlurm(17, 18, 19, shows_all=True)
    looks = looks_at(slurm, Clock())
    shown = [found(looks, number) for number in (17, 18, 19)]
    assert (shown, slurm.looks) == ([[17], [18], [19]], 1)


def test_what_was_changed_and_is_over_is_remembered_no_more() -> None:
    slurm, clock = ShownSlurm(17), Clock()
    looks = looks_at(slurm, clock)
    [job] = looks.all()
    with looks.changing(job):
        slurm.numbers.clear()
    clock.now_s += 1.0
    looks.all()
    assert found(looks, 17) == []


class SlowSlurm(ShownSlurm):
    """Shows what was true when it was asked, later: as the event that it was given last is set."""

    def __init__(self, *numbers: int, answers: Iterator[Event]) -> None:
        super().__init__(*numbers)
        self._answers = answers

    def jobs(self, number: int = 0) -> list[SlurmJob]:
        jobs = super().jobs(number)
        if (answer := next(self._answers, None)) is not None:
            answer.wait()
        return jobs


def test_a_change_is_known_to_a_look_that_ends_behind_one_before_the_job_came() -> None:
    before_it_came, before_the_change = Event(), Event()
    clock = Clock()
    slurm = SlowSlurm(17, answers=iter([before_it_came, before_the_change]))
    looks = looks_at(slurm, clock)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(looks.all)
        while slurm.looks < 1:
            pass
        clock.now_s += 0.1
        slurm.numbers.append(18)
        second = threads.submit(looks.all)
        while slurm.looks < 2:
            pass
        clock.now_s += 0.1
        with looks.changing(SlurmJob({"job_id": 18, "array_job_id": 0})):
            pass
        before_it_came.set()
        first.result()
        before_the_change.set()
        second.result()
    assert (found(looks, 18), slurm.looks) == ([18], 3)


def test_what_the_last_look_does_not_show_is_asked_for_once() -> None:
    slurm = ShownSlurm(17, shows_all=True)
    looks = looks_at(slurm, Clock())
    looks.all()
    assert looks.find(17, lambda _: None) is None
    assert slurm.looks == 2
    assert (found(looks, 18), slurm.looks) == ([], 3)
