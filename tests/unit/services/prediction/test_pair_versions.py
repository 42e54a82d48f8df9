"""Versions of the trees of pairs: grown of what shutters said, and compared with what they say
later."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import count
from typing import Any

import numpy as np
import pytest
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.prediction import pair_trees, pair_versions
from services.prediction.pair_trees import PairExample, grow, unseen_errors
from services.prediction.pair_versions import grow_pair_trees
from services.prediction.processor import Prediction
from services.prediction.versions import VersionChoice
from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.pair_trees import chosen_pair_trees, pair_trees_of
from shared.models.pair_trees import PairTrees, Side, row_of_pair
from tests.unit.services.prediction.support import (
    SECOND_US,
    Versions,
    beside,
    declared,
    measured,
)

# GB/s and cycles per instruction of each application.
APPS = {"calm": (10.0, 0.5), "busy": (90.0, 0.8), "loud": (200.0, 1.6), "deaf": (160.0, 0.4)}


def slowdown(own: str, other: str) -> float:
    """Not linear: only jobs that wait for memory suffer, and only beside jobs that press."""
    return 1 + 0.6 * (APPS[own][1] > 0.7) * (APPS[other][0] > 100)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Versions come every few intervals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_trees, "TREES", 4)
        patch.setattr(pair_versions, "FIRST_TRAINING", 24)
        patch.setattr(pair_versions, "MOST_UNTRAINED", 12)
        patch.setattr(pair_versions, "SHADOWED", 8)
        yield


class Region(Versions):
    """Rounds of four intervals of applications beside others."""

    model, chosen, round_us = "pair-trees", PairTreesChosen, 60 * SECOND_US

    def __init__(self, seed: int = 3) -> None:
        super().__init__(seed)
        self.intervals = count(1)
        known = [measured(app, gbps, cpi=cpi, power_w=300.0) for app, (gbps, cpi) in APPS.items()]
        self.told([declared(), *known])

    def plays(self, rounds: int, *, dies: bool = False) -> None:
        for _ in range(rounds):
            self.told([self.interval() for _ in range(4)], dies_before_the_end=dies)

    def interval(self) -> Event:
        own, other = (list(APPS)[n] for n in self.rng.integers(len(APPS), size=2).tolist())
        noise = 1 + 0.01 * float(self.rng.standard_normal())
        return beside(next(self.intervals), own, other, slowdown(own, other) * noise)


@pytest.fixture(scope="module")
def played(small: None) -> Region:
    """A region in which trees came into force."""
    region = Region()
    region.plays(20)
    assert region.in_force
    return region


def test_trees_take_the_place_of_weights_once_they_are_better_on_what_neither_had_seen(
    played: Region,
) -> None:
    judged = next(each for each in played.of(PairTreesJudged) if each.is_better)
    [published] = [e for e in played.of(PairTreesPublished) if e.version == judged.version]
    chosen = played.of(PairTreesChosen)[0]
    assert judged.in_force == ""
    assert judged.error < judged.error_in_force
    assert (chosen.trees, chosen.who) == (published, "prediction")
    assert "neither had seen, weights over bandwidths" in chosen.reason
    trees = chosen_pair_trees(chosen)
    assert isinstance(trees, PairTrees)
    calm, loud = (Side(gbps / 512, 0.5, cpi, 300.0) for gbps, cpi in (APPS["calm"], APPS["loud"]))
    assert 2 * trees.excess(calm, loud) < trees.excess(loud, loud)
    for each in (published, judged, chosen):
        check_contents(each)


def test_no_interval_that_a_version_is_held_to_was_learned_by_it_or_by_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: dict[str, set[float]] = {"": set()}
    held: list[tuple[str, str, float]] = []
    grows, errors = pair_versions.grow_pair_trees, pair_versions.PairVersions._errors

    def growing(examples: Sequence[PairExample], number: int) -> PairTreesPublished:
        message = grows(examples, number)
        learned[message.version] = {each.slowdown_ratio for each in examples}
        return message

    def holding(
        versions: Any, of: Sequence[PairExample], *others: Any
    ) -> Iterator[tuple[float, float, float]]:
        choice = versions._choice
        held.extend((choice.shadow, choice.in_force, each.slowdown_ratio) for each in of)
        return errors(versions, of, *others)

    monkeypatch.setattr(pair_versions, "grow_pair_trees", growing)
    monkeypatch.setattr(pair_versions.PairVersions, "_errors", holding)
    Region().plays(24)
    assert len(held) > 40
    for shadow, in_force, ratio in held:
        assert ratio not in learned[shadow] | learned[in_force]


@settings(max_examples=2, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 11), min_size=2, max_size=4))
def test_kills_change_nothing(seed: int, deaths: set[int]) -> None:
    lived, killed = Region(seed), Region(seed)
    for step in range(12):
        lived.plays(1)
        killed.plays(1, dies=step in deaths)
    assert lived.published == killed.published
    assert lived.state == killed.state


def test_copies_and_another_order_of_a_round_give_the_same_versions() -> None:
    one, two = Region(), Region()
    for _ in range(12):
        events = [one.interval() for _ in range(4)]
        one.told(events)
        two.told([*events[::-1]])
    assert one.of(PairTreesPublished)
    assert one.published == two.published


def test_a_version_may_be_pinned_and_be_rolled_back_to_weights(played: Region) -> None:
    region = deepcopy(played)
    version = region.in_force
    [chosen] = [m for m in region.pins(version) if isinstance(m, PairTreesChosen)]
    assert (chosen.version, chosen.is_pinned, chosen.who) == (version, True, "operator/ada")
    while region.in_force:
        region.rolls_back()
    back = region.of(PairTreesChosen)[-1]
    assert (back.version, back.HasField("trees"), back.reason) == ("", False, "worse")
    with pytest.raises(RejectedError, match="pair-trees: no version is in force"):
        region.rolls_back()


def test_weights_return_where_they_err_less_than_trees(
    played: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = deepcopy(played)
    app_of = {gbps / 512: app for app, (gbps, _) in APPS.items()}
    monkeypatch.setattr(
        pair_versions,
        "slowdown_of_shares",
        lambda _weights, own, other: slowdown(app_of[own], app_of[other]),
    )
    region.plays(12)
    back = next(each for each in region.of(PairTreesChosen) if not each.version)
    assert (back.who, back.HasField("trees"), region.in_force) == ("prediction", False, "")
    judged = region.of(PairTreesJudged)[-1]
    assert judged.error_of_weights < judged.error
    assert not judged.is_better


def judged_of(pairs: Sequence[tuple[float, float]], without: float = 1.0) -> VersionChoice:
    choice = VersionChoice(in_force="old", shadow="new")
    for error, in_force in pairs:
        choice = choice.with_case(error, in_force, without)
    return choice


def test_in_doubt_what_is_in_force_stays() -> None:
    clearly = judged_of([(0.1, 0.2), (0.1, 0.21)] * 20)
    by_chance = judged_of([(0.0, 0.5), (0.49, 0.0)] * 20)
    assert clearly.is_better(2.0)
    assert by_chance.is_better(0.0)
    assert not by_chance.is_better(2.0)
    assert not judged_of([(0.2, 0.2)] * 9).is_better(0.0)
    assert not judged_of([(0.1, 0.2), (0.1, 0.21)] * 20, without=0.05).is_better(2.0)


def test_trees_of_another_origin_are_forgotten(
    played: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_versions, "PAIRS_ORIGIN", b"another")
    assert Prediction(played.state)._pair_versions.in_force is None


def test_a_version_says_how_wrong_it_is_of_pairs_that_it_never_saw(played: Region) -> None:
    published = played.of(PairTreesPublished)[0]
    assert 0 < published.unseen_error < 1
    assert 0 < published.unseen_error_of_weights < 1
    assert published.trained_intervals == published.newest_interval
    assert published.data_sha256
    assert published.code_version
    assert published.sha256 == model_sha256(published)
    assert len(played.of(DegradationModelPublished)) >= 1


def drawn(number: int, apps: int, seed: int) -> list[PairExample]:
    rng = np.random.default_rng(seed)
    sides = [Side(*rng.uniform(0, 1, 4).tolist()) for _ in range(apps)]
    pairs = rng.integers(apps, size=(number, 2)).tolist()
    return [
        PairExample("gold", (f"a{i}", f"a{j}"), sides[i], sides[j], float(rng.uniform(1, 3)))
        for i, j in pairs
    ]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_is_published_says_what_was_grown_to_the_last_digit(seed: int) -> None:
    examples = drawn(80, 6, seed)
    forest, trees = grow(examples), pair_trees_of(grow_pair_trees(examples, 80))
    rows = np.array([row_of_pair(each.own, each.other) for each in examples])
    said = [trees.excess(each.own, each.other) for each in examples]
    assert forest.predict(rows).tolist() == said


def test_of_few_pairs_none_is_held_out() -> None:
    assert unseen_errors(drawn(30, 2, 1)) == (0.0, 0.0)
    assert min(unseen_errors(drawn(60, 6, 1))) > 0


def test_the_largest_version_fits_into_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_trees, "TREES", 16)
    message = grow_pair_trees(drawn(2_000, 60, 1), 5_000)
    chosen = PairTreesChosen(version=message.version, trees=message, who="prediction")
    assert chosen.ByteSize() * 4 / 3 < MAX_MESSAGE_BYTES / 10
