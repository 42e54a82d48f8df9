"""Features of runs in groups, memory-intensity classes, and errors."""

import numpy as np
import pytest

from lab.evaluate.group_features import (
    AppAlone,
    GroupRun,
    class_intensities,
    features,
    intensity_class,
    mean_percent_error,
    normalized_rmse,
)

# Table 3 of Dauwe et al. (2016).
TABLE_3 = {
    "I": (1.84e-2, 1.56e-2),
    "II": (1.63e-3, 1.50e-3, 1.11e-3, 8.60e-4),
    "III": (3.47e-5, 1.88e-5),
    "IV": (8.69e-7,),
    "V": (6.27e-10, 4.22e-10),
}


def alone(misses: float, time_s: float = 100.0) -> AppAlone:
    return AppAlone(time_s, 50.0, 1e9, 1e7, misses * 1e9)


def test_features_are_of_the_target_and_sums_over_its_neighbours() -> None:
    known = {("a", 2.0): alone(1e-3), ("b", 2.0): alone(2e-3, 30.0), ("c", 2.0): alone(4e-3)}
    runs = [GroupRun("b", ("a", "c", "c"), 2.0, 1.0, 1.0), GroupRun("a", (), 2.0, 1.0, 1.0)]
    expected = [
        [30.0, 3, 9e-3, 2e-3, 0.1 + 0.4 + 0.4, 3e-2, 0.2, 1e-2],
        [100.0, 0, 0.0, 1e-3, 0.0, 0.0, 0.1, 1e-2],
    ]
    assert features(runs, known) == pytest.approx(np.array(expected))


def test_an_application_that_nobody_measured_alone_has_no_features() -> None:
    with pytest.raises(KeyError):
        features([GroupRun("a", ("b",), 2.0, 1.0, 1.0)], {("a", 2.0): alone(1e-3)})


@pytest.mark.parametrize("name", TABLE_3)
def test_applications_fall_into_the_classes_of_the_paper(name: str) -> None:
    assert {intensity_class(each) for each in TABLE_3[name]} == {name}
    assert intensity_class(0.0) == "V"


def test_a_class_has_the_mean_intensity_of_its_other_applications() -> None:
    known = {("a", 2.0): alone(1e-2), ("b", 2.0): alone(3e-2), ("c", 2.0): alone(1e-6)}
    assert class_intensities(known, "c") == {"I": pytest.approx(2e-2)}
    assert class_intensities(known, "a") == pytest.approx({"I": 3e-2, "IV": 1e-6})


def test_errors_are_those_of_equations_4_and_5() -> None:
    said, actual = np.array([110.0, 190.0]), np.array([100.0, 200.0])
    assert mean_percent_error(said, actual) == pytest.approx(7.5)
    assert normalized_rmse(said, actual) == pytest.approx(0.1)
