"""`coplace tariff`: files of tariffs."""

from decimal import Decimal
from pathlib import Path

import pytest

from cli.tariff import declaration, read_tariff, row, taken
from coplace_client.errors import RejectedError, UnusableError
from shared.catalogue.payloads.tariffs import tariff_of
from shared.pricing.terms import newest
from tests.support.snippets import HOW_TO, write_programs
from tests.unit.cli.command_line import said

NOW_US = 1_798_761_600_000_000
SMALL = "name: t\nfrom: 2027-01-01\nmodel: fair\nrates:\n  - {resource: core, su: %s}\n"


def test_the_file_of_the_how_to_is_a_tariff(tmp_path: Path) -> None:
    write_programs(HOW_TO / "tariffs-and-accounts.md", tmp_path, "yaml")
    declared = read_tariff(tmp_path / "tariff.yaml", "new", NOW_US)
    assert row(declared)["model"] == "rate-function"
    tariff = tariff_of(declared)
    assert tariff.function is not None
    assert tariff.function.at(Decimal("0.75")) == Decimal("0.65")
    assert tariff.operator_pays_failures
    assert not tariff.operator_pays_requeues
    again = declaration(declared, "olga", NOW_US + 1)
    assert again.id != declaration(declared, "olga", NOW_US).id, "it has an outcome of its own"
    assert "gib: 0.05 SU a gib and hour, anywhere" in said(
        "tariff", "check", tmp_path / "tariff.yaml"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "must map names to values"),
        ("{", "is not valid YAML"),
        (SMALL % "1" + "colour: red\n", "colour: must be one of"),
        (SMALL % "-1", "rates\\[0\\].su: must be from 0"),
        (SMALL % "NaN", "rates\\[0\\].su"),
        (SMALL % "1" + "model: code\n", "has an invalid value"),
        (SMALL % "1" + "hour_factors: [1, 2]\n", "hour_factors: must be 24"),
        (SMALL % "1" + "until: 2026-01-01\n", "until_us: must be after from_us"),
        (SMALL % "1" + "points: [[0, 0], [1, 1]]\n", "points: must be given for"),
        (
            SMALL % "1" + "model: rate-function\npoints: [[0, 0.5], [0.5, 0.4], [1, 1]]\n",
            "more slowdown would cost more",
        ),
    ],
)
def test_a_file_that_is_no_tariff_names_what_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "tariff.yaml"
    file.write_text(text)
    with pytest.raises((RejectedError, UnusableError), match=problem):
        read_tariff(file, "", NOW_US)


def test_a_version_that_is_declared_again_with_other_rates_is_not_shown(tmp_path: Path) -> None:
    """What is shown is charged: the first declaration of a version."""
    file = tmp_path / "tariff.yaml"
    file.write_text(SMALL % "10")
    first = read_tariff(file, "", NOW_US)
    file.write_text(SMALL % "100")
    second = read_tariff(file, "", NOW_US + 1)
    assert taken([first, second, first]) == [first]
    second.version = 2
    assert taken([first, second]) == [first, second]


def test_a_name_means_its_last_version(tmp_path: Path) -> None:
    file = tmp_path / "tariff.yaml"
    file.write_text(SMALL % "0.100000000001")
    first = read_tariff(file, "", NOW_US)
    assert first.rates[0].su == "0.100000000001", "decimals stay as they are written"
    second = read_tariff(file, "", NOW_US)
    second.version = 2
    assert newest([second, first], "t") == second
    assert newest([second, first], "t/1") == first
    with pytest.raises(UnusableError, match="t/2, t/1"):
        newest([second, first], "other")
