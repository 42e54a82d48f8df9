"""Files in and out: coefficients, signatures, EAR's reports, and what is wrong with them."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError, UnusableError
from services.energy.adapters.coefficients_csv import (
    read_coefficients_file,
    write_coefficients_file,
)
from services.energy.adapters.matching import read_matched
from services.energy.adapters.signatures_csv import read_signatures
from tests.unit.services.energy.files import apps, pairs, write

finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=6, max_size=6), st.booleans())
def test_coefficients_return_to_the_last_digit(values: list[float], available: bool) -> None:
    changes = dict(zip("ABCDEF", values, strict=True)) if available else {"available": 0}
    with TemporaryDirectory() as folder:
        first = read_coefficients_file(write(Path(folder) / "m_coefficients.csv", pairs(changes)))
        copy = Path(folder) / "copy_coefficients.csv"
        write_coefficients_file(copy, first)
        second = read_coefficients_file(copy, "m")
    assert (first.node_model, first.tpi_scale) == (second.node_model, second.tpi_scale)
    for name in "abcdef":
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert bool(second.available[1, 0]) is available


@given(
    st.sampled_from(["time_s", "dc_node_power_w", "cpi", "tpi"]),
    st.sampled_from(["nan", "inf", "-inf", "-1", "0", "many", ""]) | st.floats(max_value=-1e-9),
    st.integers(1, 4),
)
def test_a_bad_signature_is_named_by_row_and_field(field: str, value: object, number: int) -> None:
    if (field, value) == ("tpi", "0"):
        return
    rows = apps(*({"app_id": str(n)} for n in range(1, 5)))
    rows[number - 1][field] = value
    with TemporaryDirectory() as folder, pytest.raises(RejectedError) as caught:
        read_signatures(write(Path(folder) / "apps.csv", rows))
    assert caught.value.field == field
    assert f"row {number} (line {number + 1}) of" in str(caught.value)
    assert str(caught.value).count("row ") == 1


@given(st.sampled_from("ABCDEF"), st.sampled_from(["nan", "inf", "much", ""]))
def test_a_bad_coefficient_is_named_by_row_and_field(field: str, value: str) -> None:
    with TemporaryDirectory() as folder, pytest.raises(RejectedError) as caught:
        read_coefficients_file(write(Path(folder) / "m.csv", pairs({field: value})))
    assert caught.value.field == field
    assert "row 3 (line 4)" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"available": "yes"}, "available"),
        ({"available": 2}, "available"),
        ({"from_ghz": -1.0}, "from_ghz"),
        ({"to_ghz": "nan"}, "to_ghz"),
        ({"to_ghz": 2.0}, "to_ghz"),
        ({"tpi_scale": "another"}, "tpi_scale"),
    ],
)
def test_a_table_of_coefficients_that_contradicts_itself_is_rejected(
    changes: Mapping[str, object], field: str, tmp_path: Path
) -> None:
    rows = [{"tpi_scale": "mine", **row} for row in pairs(changes)]
    if field == "tpi_scale":
        rows[2]["tpi_scale"] = "another"
    with pytest.raises(RejectedError) as caught:
        read_coefficients_file(write(tmp_path / "m.csv", rows))
    assert caught.value.field == field


def test_a_pstate_that_does_not_project_to_itself_is_rejected(tmp_path: Path) -> None:
    rows = pairs()
    rows[0]["C"] = 1.0
    with pytest.raises(RejectedError, match=r"1\.0 GHz must project to itself"):
        read_coefficients_file(write(tmp_path / "m.csv", rows))


def test_a_pair_without_a_row_or_without_values_was_never_measured(tmp_path: Path) -> None:
    empty = pairs({"available": 0} | dict.fromkeys("ABCDEF", ""))
    for rows, available in (
        (empty, [[True, True], [False, True]]),
        (pairs()[1:], [[False, True], [True, True]]),
    ):
        table = read_coefficients_file(write(tmp_path / "m.csv", rows))
        assert table.available.tolist() == available


@pytest.mark.parametrize("text", ["", "app_id,module\n1,m\n", "\xff", "a;b;c\n1;2;3\n"])
def test_what_is_no_table_of_signatures_is_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "apps.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnusableError, match=r"apps\.csv"):
        read_signatures(path)


def test_a_row_with_too_few_values_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "apps.csv", apps({}, {"app_id": "b"}))
    path.write_text(path.read_text() + "c,0,m\n")
    with pytest.raises(RejectedError, match=r"columns: must be 7, .* row 3"):
        read_signatures(path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tpi_scale": "ear"}, "tpi_scale: .*ear is not eamc-2020"),
        ({"freq_ghz": 1.7}, r"freq_ghz: 1.7 is not a P-state of m.* row 1 "),
    ],
)
def test_a_signature_that_the_table_cannot_project_is_named(
    changes: dict[str, object], problem: str, tmp_path: Path
) -> None:
    table = write(tmp_path / "m.csv", pairs())
    with pytest.raises(RejectedError, match=problem):
        read_matched([table], write(tmp_path / "apps.csv", apps(changes)))


def test_the_highest_pstate_is_projected_from_and_without_any_the_nominal_one(
    tmp_path: Path,
) -> None:
    several = apps({"freq_ghz": 1.0}, {"freq_ghz": 2.0, "time_s": 5.0})
    table = write(tmp_path / "m.csv", pairs())
    for rows, time_s in ((several, 5.0), (apps(), 10.0)):
        [matched] = read_matched([table], write(tmp_path / "apps.csv", rows))
        assert [(s.freq_ghz, s.time_s) for s in matched.signatures] == [(2.0, time_s)]


def two_modules(folder: Path) -> Path:
    rows = apps({}, {"module": "m2", "module_idx": "1", "time_s": 20.0})
    return write(folder / "apps.csv", rows)


@pytest.mark.parametrize(
    ("name", "asked", "module"),
    [
        ("m_coefficients.csv", "", "m"),
        ("m2_coefficients.csv", "", "m2"),
        ("learned-m2.csv", "", "m2"),
        ("m_coefficients.csv", "m2", "m2"),
        ("table.csv", "1", "m2"),
    ],
)
def test_the_module_is_the_one_asked_for_or_named_by_the_file(
    name: str, asked: str, module: str, tmp_path: Path
) -> None:
    table = write(tmp_path / name, pairs())
    modules = [asked] if asked else []
    [matched] = read_matched([table], two_modules(tmp_path), modules)
    assert (matched.module, len(matched.signatures), matched.doubts) == (module, 1, [])


def test_a_table_that_could_be_of_two_modules_is_not_guessed(tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", pairs())
    with pytest.raises(RejectedError, match=r"may belong to m, m2: name it with --module"):
        read_matched([table], two_modules(tmp_path))
    with pytest.raises(RejectedError, match="m3 names no module"):
        read_matched([table], two_modules(tmp_path), ["m3"])


def test_the_only_module_is_taken_with_a_note(tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", pairs())
    [matched] = read_matched([table], write(tmp_path / "apps.csv", apps()))
    assert matched.doubts == [
        "table.csv names no module: taken for m, the only one with signatures"
    ]
