"""A clock ahead orders nothing: what is said in a later round counts, whoever said what before."""

import random
from collections.abc import Callable

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER, POWER_SCOPE_REGION
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError, Round
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    declared,
    drained,
    end_us,
    feed,
    held,
    limits,
    lost,
    models,
    policy,
    prioritized,
    released,
    resumed,
    returned,
    submitted,
    suspended,
    unsuspended,
)

Say = Callable[[int], Event]
AHEAD_US = 20 * 3_600_000_000
# What somebody says, and what somebody else says of the same thing.
PAIRS: dict[str, tuple[Say, Say]] = {
    "cap": (
        lambda us: capped(POWER_SCOPE_REGION, "", (0, 5000.0), time_us=us),
        lambda us: capped(POWER_SCOPE_REGION, "", (0, 4000.0), time_us=us),
    ),
    "limit": (
        lambda us: limits(LIMIT_SUBJECT_USER, "ada", us, most_nodes=5),
        lambda us: limits(LIMIT_SUBJECT_USER, "ada", us, most_nodes=1),
    ),
    "policy": (
        lambda us: policy(us, policy="base"),
        lambda us: policy(us, policy="priority-inc-v"),
    ),
    "reach": (lambda us: lost("p1", us), lambda us: returned("p1", us)),
    "drain": (lambda us: drained("p1", us, "p1-0000"), lambda us: resumed("p1", us, "p1-0000")),
    "drain of all": (lambda us: drained("p1", us), lambda us: resumed("p1", us)),
    "drain and all": (lambda us: drained("p1", us, "p1-0000"), lambda us: resumed("p1", us)),
    "all and one": (lambda us: drained("p1", us), lambda us: resumed("p1", us, "p1-0000")),
    "hold": (lambda us: held("waits", us), lambda us: released("waits", us)),
    "priority": (lambda us: prioritized("waits", 3, us), lambda us: prioritized("waits", 9, us)),
    "suspension": (lambda us: suspended("runs", us), lambda us: unsuspended("runs", us)),
    "declaration": (lambda us: declared("p2", 4, us), lambda us: declared("p2", 3, us)),
}


class Told:
    """A region, and the numbers of its rounds."""

    def __init__(self) -> None:
        self.processor = Placement({}, PolicySettings(Policy.PRIORITY_INC_V), 7.0)
        self.state: dict[str, bytes] = {}
        self.number = -1
        feed(self.processor, models(4))
        self.round(submitted("runs", T0_US), submitted("waits", T0_US, nodes=9))

    def round(self, *events: Event) -> None:
        """A round with these events."""
        self.number += 1
        for each in events:
            self.processor.handle(each)
        list(self.processor.end_round(Round(self.number, end_us(self.number))))
        for key, value in self.processor.changes().items():
            self.state.pop(key, None)
            if value is not None:
                self.state[key] = value

    def restart(self) -> None:
        """Another process goes on with the state."""
        self.processor = Placement(dict(self.state), PolicySettings(Policy.PRIORITY_INC_V), 7.0)

    def now_us(self) -> int:
        """A time within the open round."""
        return end_us(self.number) + 1_000_000

    def standing(self) -> object:
        """What the region has of all that can be said of it here."""
        layers = self.processor.layers
        jobs = {name: layers.state.jobs.get(name) for name in ("runs", "waits")}
        requests = {
            name: (job.requests.held, job.requests.suspend, job.job.priority)
            for name, job in jobs.items()
            if job is not None
        }
        models_ = layers.state.models
        return (
            requests,
            {name: sorted(layers.state.nodes.drained(name)) for name in models_.declared},
            sorted(models_.lost),
            {name: cluster.nodes for name, cluster in models_.declared.items()},
            {str(key): str(cap.cap) for key, cap in models_.caps.items()},
            {str(key): limit for key, limit in models_.limits.items()},
            models_.rules.now,
        )


def standing_after(*say: Say) -> object:
    """What a region has where all clocks are right."""
    region = Told()
    for each in say:
        region.round(each(region.now_us()))
    region.round()
    return region.standing()


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_said_after_a_clock_ahead_counts(kind: str, *, restarts: bool) -> None:
    for first, then in (PAIRS[kind], PAIRS[kind][::-1]):
        if kind in ("reach", "suspension") and first is not PAIRS[kind][0]:
            continue
        region = Told()
        ahead = first(region.now_us() + AHEAD_US)
        region.round(ahead)
        if restarts:
            region.restart()
        region.round(then(region.now_us()))
        with pytest.raises(AlreadyAppliedError):
            region.processor.handle(then(region.now_us() - 30_000_000))
        region.round()
        assert region.standing() == standing_after(first, then), kind


@pytest.mark.parametrize("kind", ["cap", "limit", "policy", "hold", "priority", "drain"])
def test_a_state_that_holds_one_from_a_clock_ahead_is_set_back_by_its_next_round(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, then = PAIRS[kind]
    region = Told()
    with monkeypatch.context() as patched:
        # As before releases that set times back.
        patched.setattr(type(region.processor.layers.state), "set_back", lambda *_: None)
        region.round(first(region.now_us() + AHEAD_US))
    region.restart()
    region.round()
    region.round(then(region.now_us()))
    region.round()
    assert region.standing() == standing_after(first, lambda us: first(us + AHEAD_US), then)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_that_comes_held_from_a_clock_ahead_can_be_released(*, restarts: bool) -> None:
    region = Told()
    region.round(submitted("new", region.now_us() + AHEAD_US, held_because="unknown"))
    if restarts:
        region.restart()
        region.round()
    region.round(released("new", region.now_us()))
    job = region.processor.layers.state.jobs.get("new")
    assert job is not None
    assert job.requests.held is None


def test_who_is_overtaken_is_told_by_what() -> None:
    region = Told()
    region.round(capped(POWER_SCOPE_REGION, "", (0, 5000.0), time_us=region.now_us()))
    older = capped(POWER_SCOPE_REGION, "", (0, 900.0), time_us=region.now_us() - 40_000_000)
    with pytest.raises(OvertakenError, match=r"capped/.* is newer .*say it again"):
        region.processor.handle(older)


def test_copies_of_what_was_set_back_change_nothing() -> None:
    for first, _ in PAIRS.values():
        region = Told()
        ahead = first(region.now_us() + AHEAD_US)
        region.round(ahead)
        with pytest.raises(AlreadyAppliedError):
            region.processor.handle(ahead)


def test_random_clocks_ahead_never_silence_a_later_round() -> None:
    chance = random.Random(20)
    for _ in range(40):
        region, kinds = Told(), list(PAIRS)
        said: list[Say] = []
        for _ in range(chance.randint(2, 6)):
            first, then = PAIRS[chance.choice(kinds)]
            say = chance.choice((first, then))
            ahead_us = chance.choice((0, 0, 5_000_000, AHEAD_US))
            try:
                region.round(say(region.now_us() + ahead_us))
            except ValueError:  # such as a return of what was not lost: refused, and said so
                region.number -= 1
                continue
            said.append(say)
            if chance.random() < 0.3:
                region.restart()
        region.round()
        assert region.standing() == standing_after(*said)


def test_the_words_of_a_message_stay_as_they_are() -> None:
    """Only what orders it is set back."""
    region = Told()
    event = capped(POWER_SCOPE_REGION, "", (0, 5000.0), time_us=region.now_us() + AHEAD_US)
    payload: Message = event.payload
    before = payload.SerializeToString()
    region.round(event)
    assert payload.SerializeToString() == before
