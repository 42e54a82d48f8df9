"""Profiles of applications, as trees see them."""

from dataclasses import replace

import numpy as np

from tests.unit.shared.colocation.machines import made


def test_what_was_not_measured_counts_as_the_median_application() -> None:
    profiles, _ = made(1, apps=5)
    contentiousness = np.array([[1.0, 2.0, 4.0, np.nan, 8.0], [np.nan] * 5])
    curves = profiles.curves.copy()
    curves[0, 2] = np.nan
    partial = replace(profiles, contentiousness=contentiousness, curves=curves)
    filled = partial.filled_curves()
    assert (filled[0, 2] == np.median(np.delete(curves[0], 2, axis=0), axis=0)).all()
    columns = partial.columns()
    assert np.isfinite(columns).all()
    assert columns[0, :, -3].tolist() == [1 / 3, 2 / 3, 4 / 3, 1.0, 8 / 3]
    assert (columns[1, :, -3] == 1.0).all()


def test_units_of_contentiousness_do_not_matter() -> None:
    profiles, _ = made(2)
    scaled = replace(profiles, contentiousness=profiles.contentiousness * 2.0**20)
    assert (scaled.columns() == profiles.columns()).all()
