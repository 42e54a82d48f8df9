"""Tariffs read from files: what they hold, and the errors of broken ones."""

from pathlib import Path

import pytest

from shared.domain.energy_tariff import Tariff
from shared.process.tariff_files import read_tariffs

HEADER = "cluster,hour,price_per_kwh"


def file_of(folder: Path, *lines: str) -> Path:
    path = folder / "tariffs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_each_cluster_has_its_hours_in_order_whatever_the_order_of_the_lines(
    tmp_path: Path,
) -> None:
    path = file_of(tmp_path, HEADER, "p1,1,0.3", "p2,0,0.2", "p1,0,0.1")
    assert read_tariffs(path) == {"p1": Tariff((0.1, 0.3)), "p2": Tariff((0.2,))}


def test_carbon_intensity_is_a_tariff_too(tmp_path: Path) -> None:
    path = file_of(tmp_path, "cluster,hour,gco2_per_kwh", "p1,0,400")
    assert read_tariffs(path) == {"p1": Tariff((400.0,))}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["cluster,hour", "p1,0"], "price_per_kwh, gco2_per_kwh"),
        ([HEADER, "p1,0,cheap"], "line 2"),
        ([HEADER, "p1,0,0.1", "p1,2,0.3"], "hour: must be 0 to 1 for p1"),
    ],
)
def test_a_broken_file_is_refused_by_name(tmp_path: Path, lines: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_tariffs(file_of(tmp_path, *lines))
