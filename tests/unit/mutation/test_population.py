"""Which mutants there are, and how a seed draws them."""

from pathlib import Path

from tests.mutation.population import (
    Mutant,
    annotations,
    asterisks,
    compiles,
    in_order,
    mutants,
    mutated,
)

SOURCE = """def least(first: int | None, *, rest: list[int]) -> int | None:
    total: int | None = first
    return total + 1
"""


def of(root: Path, source: str = SOURCE, name: str = "one.py") -> list[Mutant]:
    folder = root / "shared" / "scheduling"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(source, encoding="utf-8")
    return list(mutants(root))


def test_no_mutant_is_in_a_signature(tmp_path: Path) -> None:
    assert len(annotations(SOURCE)) == 4
    assert list(asterisks(SOURCE)) == [((1, 29), (1, 31))]
    lines = {each.starts[0] for each in of(tmp_path)}
    assert lines == {3}


def test_a_mutant_changes_what_it_says(tmp_path: Path) -> None:
    found = {each.name: each for each in of(tmp_path)}
    named = found["shared/scheduling/one.py:core/ReplaceBinaryOperator_Add_Sub:0"]
    assert named.starts == (3, 17)
    assert mutated(tmp_path, named) == SOURCE.replace("total + 1", "total - 1")


def test_what_is_no_program_is_distinguished() -> None:
    assert compiles("total = {**first}")
    assert not compiles("total = {//first}")


def test_a_seed_draws_the_same_from_the_same_sources_in_any_order(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert in_order(found, 1) == in_order(reversed(found), 1)
    assert in_order(found, 1) != in_order(found, 2)


def test_a_change_of_one_file_leaves_the_order_of_the_others(tmp_path: Path) -> None:
    of(tmp_path)
    before = in_order(of(tmp_path, SOURCE, "other.py"), 1)
    after = in_order(of(tmp_path, "A = 1 + 2\n", "other.py"), 1)
    assert after != before
    assert [one for one in after if "one" in one.file] == [m for m in before if "one" in m.file]
