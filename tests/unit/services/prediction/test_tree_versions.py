"""Versions of the trees of power: grown of what ended, held to those in force, and chosen."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from coplace.v1.control_pb2 import ModelPinned, ModelRolledBack
from coplace.v1.jobs_pb2 import JobFinished, JobStarted, JobSubmitted
from coplace.v1.prediction_pb2 import (
    PowerHistoryUpdated,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
)
from google.protobuf.message import Message
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.prediction import tree_versions
from services.prediction.power_trees import Growth
from services.prediction.processor import Prediction
from services.prediction.tree_versions import TreeVersions
from services.prediction.versions import MOST_VERSIONS
from shared.catalogue.event import Event
from shared.catalogue.payloads.power_history import update_of
from shared.catalogue.payloads.power_trees import chosen_trees
from shared.power_prediction.online import JudgedPrediction
from shared.power_prediction.similar_jobs import PowerTables
from shared.streams.stages.stage import Round
from tests.unit.services.prediction.support import SECOND_US, declared, event, run

HOUR_US = 3_600 * SECOND_US
RNG_SEED = 7


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions come every few jobs."""
    monkeypatch.setattr(tree_versions, "GROWTH", Growth(3, 5, 6, 4, 2, 4, 5))
    monkeypatch.setattr(tree_versions, "FIRST_TRAINING", 20)
    monkeypatch.setattr(tree_versions, "MOST_UNTRAINED", 10)
    monkeypatch.setattr(tree_versions, "SHADOWED", 8)


class Region:
    """Jobs of three users whose power follows from nodes and walltime; the stage lives on, or is
    killed and restored from its changelog after a round."""

    def __init__(self, seed: int = RNG_SEED) -> None:
        self.rng = np.random.default_rng(seed)
        self.stage, self.state = Prediction({}), dict[str, bytes]()
        self.round, self.job = 0, 0
        self.published: list[Message] = []
        self.told([declared()])

    def told(self, events: Iterable[Event]) -> list[Message]:
        """What a round of events publishes."""
        for one in events:
            list(self.stage.handle(one))
        self.round += 1
        found = list(self.stage.end_round(Round(self.round, (self.round + 2) * HOUR_US)))
        for key, value in self.stage.changes().items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.published += [publish.event.payload for publish in found]
        return [publish.event.payload for publish in found]

    def plays(self, rounds: int) -> None:
        """In each round two jobs start, and those of the round before end."""
        for _ in range(rounds):
            starts, ends = zip(*(self._job() for _ in range(2)), strict=True)
            self.told([each for two in starts for each in two])
            self.told(ends)

    def dies(self) -> None:
        """A kill behind the commit of a round."""
        self.stage = Prediction(self.state)

    def _job(self) -> tuple[tuple[Event, Event], Event]:
        self.job += 1
        user, app = self.rng.integers(3), self.rng.integers(2)
        nodes, hours = int(self.rng.integers(1, 17)), int(self.rng.integers(1, 24))
        power_w = (200 + 30 * user + 20 * nodes) * float(np.exp(0.02 * self.rng.standard_normal()))
        submitted, finished = run(self.job, f"a{app}", power_w, nodes=nodes)
        assert isinstance(submitted.payload, JobSubmitted)
        submitted.payload.user, submitted.payload.nodes = f"u{user}", nodes
        submitted.payload.walltime_s = 3600.0 * hours
        assert isinstance(finished.payload, JobFinished)
        finished.payload.energy_j = power_w * nodes * 3600
        started = JobStarted(
            job_id=submitted.key,
            attempt=1,
            cluster="p1",
            nodes=[f"n{n}" for n in range(nodes)],
            freq_ghz=2.7,
            started_at_us=SECOND_US,
        )
        return (submitted, event(f"started {self.job}", 2, submitted.key, started)), finished

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.published if isinstance(message, kind)]

    @property
    def in_force(self) -> str:
        """As placement was told last."""
        chosen = self.of(PowerTreesChosen)
        return chosen[-1].version if chosen else ""


def pinned(version: str, number: int = 1) -> Event:
    payload = ModelPinned(model="power-trees", version=version, reason="why", pinned_at_us=1)
    return Event(f"pin {number}", "operator/ada", 1, "power-trees", payload)


def rolled_back(number: int = 1) -> Event:
    payload = ModelRolledBack(model="power-trees", reason="worse", rolled_back_at_us=1)
    return Event(f"back {number}", "operator/ada", 1, "power-trees", payload)


def test_a_version_stays_in_the_shadow_until_it_is_better_on_jobs_that_it_never_saw() -> None:
    region = Region()
    region.plays(50)
    judged = next(each for each in region.of(PowerTreesJudged) if each.is_better)
    [published] = [e for e in region.of(PowerTreesPublished) if e.version == judged.version]
    chosen = region.of(PowerTreesChosen)[0]
    assert judged.jobs >= 8
    assert (judged.in_force, judged.error < judged.error_in_force) == ("", True)
    assert (chosen.trees, chosen.who) == (published, "prediction")
    assert "neither had seen" in chosen.reason
    order = [region.published.index(each) for each in (published, judged, chosen)]
    assert order == sorted(order)


def test_a_version_that_is_not_better_is_never_put_into_force() -> None:
    region = Region()
    region.plays(80)
    judged = region.of(PowerTreesJudged)
    worse = {each.version for each in judged if not each.is_better}
    better = [each.version for each in judged if each.is_better]
    assert worse
    assert len(judged) > 3
    assert [each.version for each in region.of(PowerTreesChosen)] == better
    for each in judged:
        assert each.is_better == (each.error < each.error_in_force)


def test_no_job_that_a_version_is_held_to_was_learned_by_it_or_by_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: dict[str, set[int]] = {"": set()}
    held: list[tuple[str, str, int]] = []
    grow, hold = tree_versions.grown, TreeVersions._errors

    def growing(examples: Sequence[JudgedPrediction]) -> PowerTreesPublished:
        message = grow(examples)
        learned[message.version] = {each.number for each in examples}
        return message

    def holding(versions: TreeVersions, judged: Sequence[JudgedPrediction]) -> Any:
        choice = versions._choice
        if choice.shadow:
            held.extend((choice.shadow, each.trees, each.number) for each in judged)
        return hold(versions, judged)

    monkeypatch.setattr(tree_versions, "grown", growing)
    monkeypatch.setattr(TreeVersions, "_errors", holding)
    Region().plays(50)
    assert len(held) > 40
    for shadow, in_force, number in held:
        assert number not in learned[shadow] | learned[in_force]


@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 39), min_size=2, max_size=4))
def test_kills_change_nothing_and_placement_predicts_the_same_to_the_last_digit(
    seed: int, deaths: set[int]
) -> None:
    lived, killed, placement = Region(seed), Region(seed), Evaluator()
    for step in range(40):
        for region in (lived, killed):
            region.plays(1)
            region.told(ordered(region, step))
        if step in deaths:
            killed.dies()
            placement.follow(killed)
            tables = killed.stage.power_learner.tables
            known = list(tables._kinds)[-10:]
            kinds = [*known, *(each._replace(user="new") for each in known)]
            assert tables.predict_all(kinds) == placement.tables.predict_all(kinds)
    assert killed.published == lived.published
    assert lived.of(PowerTreesChosen)


def ordered(region: Region, step: int) -> list[Event]:
    """What an operator orders meanwhile."""
    match step:
        case 28:
            return [pinned(region.of(PowerTreesPublished)[0].version)]
        case 34:
            return [rolled_back()]
    return []


class Evaluator:
    """What placement knows of power: all that was published, in its order."""

    def __init__(self) -> None:
        self.tables, self._folded = PowerTables(), 0

    def follow(self, region: Region) -> None:
        for message in region.published[self._folded :]:
            if isinstance(message, PowerHistoryUpdated):
                self.tables.fold(update_of(message))
            if isinstance(message, PowerTreesChosen):
                self.tables.take_trees(chosen_trees(message))
        self._folded = len(region.published)


def test_equal_jobs_grow_equal_trees_whatever_their_ids_and_rounds() -> None:
    one, two = Region(), Region()
    one.plays(15)
    two.plays(15)
    [first], [second] = one.of(PowerTreesPublished)[:1], two.of(PowerTreesPublished)[:1]
    assert first == second
    assert len(first.data_sha256) == 32
    assert first.trained_jobs == first.newest_job >= 20
    assert first.code_version


def test_what_is_pinned_stays_until_it_is_released() -> None:
    region = Region()
    region.plays(50)
    version = region.in_force
    [chosen] = region.told([pinned(version)])
    assert isinstance(chosen, PowerTreesChosen)
    assert (chosen.is_pinned, chosen.who, chosen.reason) == (True, "operator/ada", "why")
    region.plays(40)
    assert any(each.is_better for each in region.of(PowerTreesJudged)[1:])
    assert region.in_force == version
    [released] = region.told([pinned("", 2)])
    assert isinstance(released, PowerTreesChosen)
    assert (released.version, released.is_pinned) == (version, False)
    region.plays(60)
    assert region.in_force != version


def test_who_rolls_back_gets_what_was_before_and_at_last_nothing() -> None:
    region = Region()
    region.plays(60)
    *before, now = (each.version for each in region.of(PowerTreesChosen))
    assert (region.in_force, len(before) > 0) == (now, True)
    seen = []
    while region.in_force:
        region.told([rolled_back()])
        seen.append(region.in_force)
    assert seen == [*reversed(before[-3:]), ""]
    assert not region.of(PowerTreesChosen)[-1].HasField("trees")
    with pytest.raises(RejectedError, match="no version is in force"):
        list(region.stage.handle(rolled_back(2)))


def test_a_version_that_is_not_kept_is_refused() -> None:
    with pytest.raises(RejectedError, match="must be one of those that are kept: none"):
        list(Region().stage.handle(pinned("power-trees@7")))


def test_a_few_versions_are_kept_and_that_in_force_always() -> None:
    region = Region()
    region.plays(50)
    version = region.in_force
    region.told([pinned(version)])
    region.plays(40)
    kept = [key for key in region.state if key.startswith("power-trees|")]
    assert len(kept) == MOST_VERSIONS
    assert f"power-trees|{version}" in kept


def test_trees_of_another_origin_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region()
    region.plays(50)
    assert region.stage.power_learner.tables.trees is not None
    monkeypatch.setattr(tree_versions, "TREES_ORIGIN", b"another")
    region.dies()
    assert region.stage.power_learner.tables.trees is None
    assert not [key for key, value in region.stage.changes().items() if value and "@" in key]
