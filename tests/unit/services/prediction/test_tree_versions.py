"""Versions of the trees of power: grown of what ended, held to those in force, and chosen."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from coplace.v1.prediction_pb2 import (
    PowerHistoryUpdated,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
)
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
from tests.unit.services.prediction.support import SECOND_US, Versions, declared, job


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Versions come every few jobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_versions, "GROWTH", Growth(3, 5, 6, 4, 2, 4, 5))
        patch.setattr(tree_versions, "FIRST_TRAINING", 20)
        patch.setattr(tree_versions, "MOST_UNTRAINED", 10)
        patch.setattr(tree_versions, "SHADOWED", 8)
        yield


class Region(Versions):
    """Jobs of three users whose power follows from nodes and walltime."""

    model, chosen, round_us = "power-trees", PowerTreesChosen, 3_600 * SECOND_US

    def __init__(self, seed: int = 7) -> None:
        super().__init__(seed)
        self.job = 0
        self.told([declared()])

    def plays(self, rounds: int) -> None:
        """In each round two jobs start, and those of the round before end."""
        for _ in range(rounds):
            starts, ends = zip(*(self._job() for _ in range(2)), strict=True)
            self.told([each for two in starts for each in two])
            self.told(ends)

    def _job(self) -> tuple[tuple[Event, Event], Event]:
        self.job += 1
        user, app = self.rng.integers(3), self.rng.integers(2)
        nodes, hours = int(self.rng.integers(1, 17)), int(self.rng.integers(1, 24))
        power_w = (200 + 30 * user + 20 * nodes) * float(np.exp(0.02 * self.rng.standard_normal()))
        submitted, started, finished = job(
            self.job,
            power_w,
            f"a{app}",
            of_submission={"user": f"u{user}", "nodes": nodes, "walltime_s": 3600.0 * hours},
            of_start={"nodes": [f"n{n}" for n in range(nodes)]},
            nodes=nodes,
            energy_j=power_w * nodes * 3600,
        )
        return (submitted, started), finished


@pytest.fixture(scope="module")
def played(small: None) -> Region:
    """A region in which trees came into force."""
    region = Region()
    region.plays(60)
    return region


def test_a_version_stays_in_the_shadow_until_it_is_better_on_jobs_that_it_never_saw(
    played: Region,
) -> None:
    judged = next(each for each in played.of(PowerTreesJudged) if each.is_better)
    [published] = [e for e in played.of(PowerTreesPublished) if e.version == judged.version]
    chosen = played.of(PowerTreesChosen)[0]
    assert judged.jobs >= 8
    assert (judged.in_force, judged.error < judged.error_in_force) == ("", True)
    assert (chosen.trees, chosen.who) == (published, "prediction")
    assert "neither had seen" in chosen.reason
    order = [played.published.index(each) for each in (published, judged, chosen)]
    assert order == sorted(order)


def test_a_version_that_is_not_better_is_never_put_into_force(played: Region) -> None:
    judged = played.of(PowerTreesJudged)
    better = [each.version for each in judged if each.is_better]
    assert 3 < len(judged) > len(better)
    assert [each.version for each in played.of(PowerTreesChosen)] == better
    for each in judged:
        assert each.is_better == (each.error < each.error_in_force)


def test_no_job_that_a_version_is_held_to_was_learned_by_it_or_by_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: dict[str, set[int]] = {"": set()}
    held: list[tuple[str, str, int]] = []
    grow, hold = tree_versions.grow_power_trees, TreeVersions._errors

    def growing(examples: Sequence[JudgedPrediction]) -> PowerTreesPublished:
        message = grow(examples)
        learned[message.version] = {each.number for each in examples}
        return message

    def holding(versions: TreeVersions, judged: Sequence[JudgedPrediction]) -> Any:
        choice = versions._choice
        if choice.shadow:
            held.extend((choice.shadow, each.trees, each.number) for each in judged)
        return hold(versions, judged)

    monkeypatch.setattr(tree_versions, "grow_power_trees", growing)
    monkeypatch.setattr(TreeVersions, "_errors", holding)
    Region().plays(50)
    assert len(held) > 40
    for shadow, in_force, number in held:
        assert number not in learned[shadow] | learned[in_force]


@settings(max_examples=2, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 23), min_size=2, max_size=4))
def test_kills_change_nothing_and_placement_predicts_the_same_to_the_last_digit(
    seed: int, deaths: set[int]
) -> None:
    lived, killed, placement = Region(seed), Region(seed), Evaluator()
    for step in range(24):
        for region in (lived, killed):
            region.plays(1)
            if step == 16:
                region.pins(region.of(PowerTreesPublished)[0].version)
            if step == 20:
                region.rolls_back()
        if step in deaths:
            killed.dies()
            placement.follow(killed)
            tables = killed.stage.power_learner.tables
            known = list(tables._kinds)[-10:]
            kinds = [*known, *(each._replace(user="new") for each in known)]
            assert tables.predict_all(kinds) == placement.tables.predict_all(kinds)
    assert killed.published == lived.published
    assert lived.of(PowerTreesChosen)


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


def test_equal_jobs_grow_equal_trees_whatever_their_ids_and_rounds(played: Region) -> None:
    again = Region()
    again.plays(15)
    [first], [second] = (each.of(PowerTreesPublished)[:1] for each in (played, again))
    assert first == second
    assert len(first.data_sha256) == 32
    assert first.trained_jobs == first.newest_job >= 20
    assert first.code_version


def test_what_is_pinned_stays_and_is_kept_until_it_is_released(played: Region) -> None:
    region = deepcopy(played)
    version, judged = region.in_force, len(region.of(PowerTreesJudged))
    [chosen] = region.pins(version)
    assert (chosen.is_pinned, chosen.who, chosen.reason) == (True, "operator/ada", "why")
    region.plays(24)
    assert any(each.is_better for each in region.of(PowerTreesJudged)[judged:])
    assert region.in_force == version
    kept = [key for key in region.state if key.startswith("power-trees|")]
    assert len(kept) == MOST_VERSIONS
    assert f"power-trees|{version}" in kept
    [released] = region.pins("")
    assert (released.version, released.is_pinned) == (version, False)
    region.plays(30)
    assert region.in_force != version


def test_who_rolls_back_gets_what_was_before_and_at_last_nothing(played: Region) -> None:
    region = deepcopy(played)
    *before, now = (each.version for each in region.of(PowerTreesChosen))
    assert (region.in_force, len(before) > 0) == (now, True)
    seen = []
    while region.in_force:
        region.rolls_back()
        seen.append(region.in_force)
    assert seen == [*reversed(before[-3:]), ""]
    assert not region.of(PowerTreesChosen)[-1].HasField("trees")
    with pytest.raises(RejectedError, match="power-trees: no version is in force"):
        region.rolls_back()


def test_a_version_that_is_not_kept_is_refused() -> None:
    with pytest.raises(RejectedError, match="must be one of those that are kept: none"):
        Region().pins("power-trees@7")


def test_trees_of_another_origin_are_forgotten(
    played: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert played.stage.power_learner.tables.trees is not None
    monkeypatch.setattr(tree_versions, "TREES_ORIGIN", b"another")
    stage = Prediction(played.state)
    assert stage.power_learner.tables.trees is None
    assert not [key for key, value in stage.changes().items() if value and "@" in key]
