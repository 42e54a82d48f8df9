"""Degradation of pairs that were not measured."""

from dataclasses import replace

import numpy as np
import pytest

from services.prediction.degradation_trees import train_extra_trees
from shared.colocation.model import Cells, DegradationModel
from tests.unit.shared.colocation.machines import made

PROFILES, DEGRADATION = made(7, apps=14)


def hidden(*pairs: tuple[int, int]) -> DegradationModel:
    left = DEGRADATION.copy()
    for target, neighbour in pairs:
        left[:, target, neighbour] = left[:, neighbour, target] = np.nan
    return DegradationModel(PROFILES, left, train_extra_trees)


def without(*apps: int) -> DegradationModel:
    return hidden(*((app, other) for app in apps for other in range(14)))


def cells(target: int, neighbour: int) -> Cells:
    return Cells(np.array([0]), np.array([target]), np.array([neighbour]))


def test_an_unseen_pair_of_known_applications_is_near_what_it_would_suffer() -> None:
    said = hidden((2, 9)).predict(cells(2, 9))
    assert said == pytest.approx(DEGRADATION[0, 2, 9], abs=0.08)


def test_an_application_that_never_had_a_neighbour_is_predicted_from_its_profile() -> None:
    model = without(2)
    for target, neighbour in (2, 9), (9, 2):
        said = model.predict(cells(target, neighbour))
        assert said == pytest.approx(DEGRADATION[0, target, neighbour], abs=0.2)


def test_all_pairs_are_what_is_said_of_each() -> None:
    model = without(1, 5)
    hide = [(1, 5), (2, 3), (2, 9), (3, 9)]
    left = model.degradation.copy()
    for target, neighbour in hide:
        left[:, target, neighbour] = left[:, neighbour, target] = np.nan
    model = DegradationModel(PROFILES, left, train_extra_trees)
    apps = np.array([1, 2, 3, 5, 9, 2])
    said = model.all_pairs(1, apps)
    for row, target in enumerate(apps):
        for column, neighbour in enumerate(apps):
            if target != neighbour:
                alone = model.predict(
                    Cells(np.array([1]), np.array([target]), np.array([neighbour]))
                )
                assert said[row, column] == pytest.approx(alone[0], rel=1e-12)


def test_the_same_seed_says_the_same() -> None:
    first, second = (hidden((2, 9)).predict(cells(2, 9)) for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_of_one_pair_that_was_measured_all_others_are_reported_as_it_was() -> None:
    left = np.full(DEGRADATION.shape, np.nan)
    left[0, 2, 9] = DEGRADATION[0, 2, 9]
    model = DegradationModel(PROFILES, left, train_extra_trees)
    for target, neighbour in (2, 9), (9, 2), (3, 5):
        said = model.predict(cells(target, neighbour))
        assert said == pytest.approx(DEGRADATION[0, 2, 9])


def test_who_was_never_measured_alone_is_reported_as_the_median_one() -> None:
    curves, contentiousness = PROFILES.curves.copy(), PROFILES.contentiousness.copy()
    curves[:, 2], contentiousness[:, 2] = np.nan, np.nan
    profiles = replace(PROFILES, curves=curves, contentiousness=contentiousness)
    for model in (
        DegradationModel(profiles, DEGRADATION, train_extra_trees),
        DegradationModel(profiles, without(2).degradation, train_extra_trees),
    ):
        for target, neighbour in (2, 9), (9, 2):
            said = model.predict(cells(target, neighbour))
            assert 0.0 < said[0] < np.nanmax(DEGRADATION)


def test_columns_that_are_constant_leave_what_pairs_say() -> None:
    ones = np.ones_like(PROFILES.alone_s)
    flat = np.ones_like(PROFILES.curves)
    profiles = replace(PROFILES, curves=flat, contentiousness=ones, alone_s=ones)
    left = hidden((2, 9)).degradation
    said = DegradationModel(profiles, left, train_extra_trees).predict(cells(2, 9))
    assert said == pytest.approx(DEGRADATION[0, 2, 9], abs=0.25)
