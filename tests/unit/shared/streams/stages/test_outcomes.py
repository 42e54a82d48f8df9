"""What the owner of commands says of them: each once, with what it is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_IN_FORCE,
    COMMAND_RESULT_REFUSED,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_SITE,
    CommandOutcome,
    NamedSetting,
    NodesResumed,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
    PowerScope,
)
from coplace.v1.jobs_pb2 import HOLDER_USER, JobHeld, JobReleased, JobSubmitted

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.catalogue.options import owners
from shared.catalogue.record import NewRecord, Record
from shared.streams.stages.outcomes import PREFIX, TOPIC, are_told_by
from shared.streams.stages.stage import (
    AlreadyAppliedError,
    EarlyError,
    OvertakenError,
    Round,
    Stage,
)
from shared.streams.stages.unit import Commit, EventTimeLimit, Unit
from tests.support.messaging import CODEC, START_US, at_offset, barriers, encoded, submission

_FAILS = {
    "refused": RejectedError("nodes", "is no node"),
    "overtaken": OvertakenError("what olga said is newer"),
    "copy": AlreadyAppliedError("again"),
}


class Owner:
    """Does what the reason of a resumption says; a job can be held once it was submitted."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()

    def handle(self, event: Event) -> Iterable[Publish]:
        match event.payload:
            case JobSubmitted() as submitted:
                self.jobs.add(submitted.job_id)
            case JobHeld() as held if held.job_id not in self.jobs:
                raise EarlyError("job_id", "was never submitted")
            case NodesResumed() as resumed if resumed.reason in _FAILS:
                raise _FAILS[resumed.reason]
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        return ()

    def changes(self) -> Mapping[str, bytes | None]:
        return {}


INPUTS = ("commands", "jobs.events")


def stage(name: str = "placement", passes_to: str = "") -> Stage:
    def create(_number: int, _restored: Mapping[str, bytes]) -> Owner:
        return Owner()

    return Stage(name, INPUTS, (), create, single=True, puts_barriers=False, passes_to=passes_to)


def resumption(reason: str, time_us: int = START_US) -> Publish:
    payload = NodesResumed(cluster="p1", reason=reason, resumed_at_us=time_us)
    return Publish("commands", Event(f"olga/resumed/{reason}", "olga", time_us, "p1", payload))


def hold(job_id: str) -> Publish:
    payload = JobHeld(job_id=job_id, held_at_us=START_US)
    return Publish("jobs.events", Event(f"ada/held/{job_id}", "ada", START_US, job_id, payload))


class Told:
    """A unit, and what it publishes of commands."""

    def __init__(self, of: Stage, limit: EventTimeLimit | None = None) -> None:
        self._stage, self._limit = of, limit
        self.state: dict[str, bytes] = {}
        self._unit = Unit(of, 0, {}, CODEC, limit)
        self._offset = 0

    def read(self, *events: Publish) -> list[tuple[str, int, int, str]]:
        """The id, result, round and reason of each that is published when these are read."""
        return self._told(encoded(*events))

    def end(self, number: int) -> list[tuple[str, int, int, str]]:
        """Those that are published at the end of a round."""
        return self._told(barriers(number, *INPUTS))

    def restart(self) -> None:
        """Another process goes on with the changelog."""
        self._unit = Unit(self._stage, 0, self.state, CODEC, self._limit)

    def _told(self, records: Iterable[NewRecord]) -> list[tuple[str, int, int, str]]:
        return [
            (told.command_id, told.result, told.round, told.reason)
            for told in outcomes_of(self._kept(self._unit.process(map(self._at, records))))
        ]

    def _kept(self, commit: Commit) -> Commit:
        for key, value in commit.changelog.items():
            self.state.pop(key, None)
            if value is not None:
                self.state[key] = value
        return commit

    def _at(self, record: NewRecord) -> Record:
        self._offset += 1
        return at_offset(record, self._offset)


def outcomes_of(commit: Commit) -> list[CommandOutcome]:
    return [
        CommandOutcome.FromString(record.value or b"")
        for record in commit.outputs
        if record.partition.topic == TOPIC
    ]


def test_a_command_is_in_force_when_its_round_has_ended() -> None:
    owner = Told(stage())
    assert owner.read(resumption("fine")) == []
    assert owner.end(0) == [("olga/resumed/fine", COMMAND_RESULT_IN_FORCE, 0, "")]
    assert owner.end(1) == []
    assert not any(key.startswith(PREFIX) for key in owner.state)


def test_a_refused_or_overtaken_command_is_told_at_once_and_why() -> None:
    owner = Told(stage())
    owner.end(0)
    assert owner.read(resumption("refused"), resumption("overtaken")) == [
        ("olga/resumed/refused", COMMAND_RESULT_REFUSED, 1, "nodes: is no node"),
        ("olga/resumed/overtaken", COMMAND_RESULT_REFUSED, 1, "what olga said is newer"),
    ]
    assert owner.end(1) == []


def capped(name: str, at_us: int, scope: PowerScope.ValueType = POWER_SCOPE_CLUSTER) -> Publish:
    payload = PowerCapDeclared(
        scope=scope, name=name, steps=[PowerCapStep(from_us=at_us)], declared_at_us=at_us
    )
    event_id = f"olga/cap/{scope}/{name}/{at_us}"
    return Publish("commands", Event(event_id, "olga", at_us, name, payload))


def policy(at_us: int, *names: str, reset: Sequence[str] = ()) -> Publish:
    settings = [NamedSetting(name=name, value="1") for name in names]
    payload = PolicyDeclared(settings=settings, reset=reset, declared_at_us=at_us)
    return Publish("commands", Event(f"olga/policy/{at_us}", "olga", at_us, "region", payload))


def asked(message: JobHeld | JobReleased, name: str) -> Publish:
    return Publish("jobs.events", Event(name, "ada", START_US, message.job_id, message))


HOLD = asked(JobHeld(job_id="j1", held_at_us=START_US), "hold")
RELEASE = asked(JobReleased(job_id="j1", released_at_us=START_US), "release")
HOLD_OF_ADA = asked(JobHeld(job_id="j1", holder=HOLDER_USER, held_at_us=START_US), "ada's")
RELEASE_OF_ADA = asked(
    JobReleased(job_id="j1", holders=[HOLDER_USER], released_at_us=START_US), "release ada's"
)
RELEASE_J2 = asked(JobReleased(job_id="j2", released_at_us=START_US), "release j2")


@pytest.mark.parametrize(
    ("first", "then", "is_replaced"),
    [
        (capped("p1", START_US), capped("p1", START_US + 1), True),
        (capped("p1", START_US), capped("p2", START_US + 1), False),
        (capped("p1", START_US), capped("p1", START_US + 1, POWER_SCOPE_SITE), False),
        (HOLD, RELEASE, True),
        (HOLD, RELEASE_J2, False),
        (HOLD, RELEASE_OF_ADA, False),
        (HOLD_OF_ADA, RELEASE_OF_ADA, True),
        (HOLD_OF_ADA, RELEASE, True),
        (policy(START_US, "t_weight"), policy(START_US + 1, "t_weight", "threshold"), True),
        (policy(START_US, "t_weight", "threshold"), policy(START_US + 1, "t_weight"), False),
        (
            policy(START_US, "t_weight", "threshold"),
            policy(START_US + 1, "t_weight", reset=["threshold"]),
            True,
        ),
        (resumption("fine"), resumption("also fine"), False),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_what_another_command_of_its_round_replaced_is_not_in_force(
    first: Publish, then: Publish, is_replaced: bool, restarts: bool
) -> None:
    owner = Told(stage())
    owner.read(submission("j1"), submission("j2"), first)
    if restarts:
        owner.restart()
    owner.read(then)
    told = {name: (result, reason) for name, result, _, reason in owner.end(0)}
    assert told[then.event.id] == (COMMAND_RESULT_IN_FORCE, "")
    replaced = (COMMAND_RESULT_REFUSED, f"replaced by {then.event.id} in the same round")
    assert told[first.event.id] == (replaced if is_replaced else (COMMAND_RESULT_IN_FORCE, ""))
    assert not any(key.startswith(PREFIX) for key in owner.state)


def test_what_was_set_in_another_round_is_in_force_in_each() -> None:
    owner = Told(stage())
    for number in range(3):
        owner.read(capped("p1", START_US + number))
        [(_, result, _, _)] = owner.end(number)
        assert result == COMMAND_RESULT_IN_FORCE


def test_a_command_that_was_replaced_piece_by_piece_names_the_last_that_did() -> None:
    owner = Told(stage())
    every = [
        policy(START_US, "t_weight", "threshold"),
        policy(START_US + 1, "t_weight"),
        policy(START_US + 2, "threshold"),
    ]
    owner.read(*every)
    (name, result, _, reason), *others = owner.end(0)
    assert (name, result) == (every[0].event.id, COMMAND_RESULT_REFUSED)
    assert reason == f"replaced by {every[2].event.id} in the same round"
    assert {each[1] for each in others} == {COMMAND_RESULT_IN_FORCE}


def test_what_was_said_before_is_in_force() -> None:
    owner = Told(stage())
    owner.read(resumption("copy"))
    [(_, result, _, _)] = owner.end(0)
    assert result == COMMAND_RESULT_IN_FORCE


def test_a_restart_before_the_end_of_the_round_loses_no_outcome() -> None:
    owner = Told(stage())
    owner.read(resumption("fine"))
    owner.restart()
    assert [told[0] for told in owner.end(0)] == ["olga/resumed/fine"]
    owner.restart()
    assert owner.end(1) == []


def test_an_early_command_waits_and_is_in_force_with_what_it_waited_for() -> None:
    owner = Told(stage())
    assert owner.read(hold("j1")) == [
        ("ada/held/j1", COMMAND_RESULT_EARLY, 0, "job_id: was never submitted")
    ]
    owner.end(0)
    assert owner.read(submission("j1")) == []
    assert owner.end(1) == [("ada/held/j1", COMMAND_RESULT_IN_FORCE, 1, "")]


def test_what_cannot_be_read_is_refused_by_its_headers() -> None:
    owner = Told(stage())
    [record] = encoded(resumption("fine"))
    [told] = owner._told([replace(record, value=b"\xff")])
    assert told[:2] == ("olga/resumed/fine", COMMAND_RESULT_REFUSED)
    headers = tuple(each for each in record.headers if each[0] != "ce_id")
    assert owner._told([replace(record, headers=headers)]) == []


def test_others_than_the_owner_tell_nothing_and_the_sequencer_its_refusals() -> None:
    everything = [resumption("fine"), resumption("refused"), hold("j1")]
    reader = Told(stage("pricing"))
    assert reader.read(*everything) == reader.end(0) == []
    assert not are_told_by(stage("energy.appdb"))
    sequencer = Told(stage("placement.sequencer", passes_to="placement"))
    assert [told[0] for told in sequencer.read(*everything)] == ["olga/resumed/refused"]
    assert sequencer.end(0) == []


def test_what_lies_too_far_ahead_is_refused_with_its_time() -> None:
    owner = Told(stage(), EventTimeLimit.from_wall_clock(START_US))
    [(_, result, _, reason)] = owner.read(resumption("ahead", START_US + 86_400_000_001))
    assert result == COMMAND_RESULT_REFUSED
    assert "the latest now is" in reason


def test_every_owner_is_a_stage() -> None:
    from cli.stages import every_stage
    from shared.process.settings import Settings

    names = {each.name for each in every_stage(Settings())}
    assert set(owners().values()) <= names


@pytest.mark.parametrize("reason", ["fine", "refused", "overtaken", "copy"])
def test_a_command_that_comes_again_and_again_is_told_once_a_round(reason: str) -> None:
    owner = Told(stage())
    told = owner.read(resumption(reason), resumption(reason)) + owner.end(0)
    assert {each[0] for each in told} == {f"olga/resumed/{reason}"}
    assert len({each[1] for each in told}) == 1
