"""What is worked out of signatures is worked out anew only where something changed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from coplace_client.signature import Signature
from shared.placement.evaluate.known_applications import KnownApplications

BASIS = (object(), object())


def row(app_id: str, time_s: float = 10.0, count: int = 1) -> list[Signature]:
    return [Signature(app_id, "m", 2.0, time_s, 300.0, 0.7, 0.01, 60.0, "x", count=count)]


class Doubled:
    """Twice the time of the newest signature; `asked` is what it was asked for."""

    def __init__(self, signatures: dict[str, list[Signature]]) -> None:
        self.signatures = signatures
        self.asked: list[list[str]] = []

    def __call__(self, apps: Sequence[str]) -> Iterable[tuple[str, float]]:
        self.asked.append(list(apps))
        return [(app, 2 * self.signatures[app][-1].time_s) for app in apps]


def test_only_rows_that_changed_are_worked_out_again() -> None:
    signatures = {"a": row("a"), "b": row("b")}
    doubled, known = Doubled(signatures), KnownApplications[float]()
    known.of(BASIS, signatures, doubled)
    signatures["b"] = row("b", time_s=20.0, count=3)
    signatures["c"] = row("c")

    found = known.of(BASIS, signatures, doubled)

    assert doubled.asked == [["a", "b"], ["b", "c"]]
    assert found == {"a": 20.0, "b": 40.0, "c": 20.0}


def test_new_coefficients_or_another_declaration_make_all_of_it_stale() -> None:
    signatures = {"a": row("a"), "b": row("b")}
    doubled, known = Doubled(signatures), KnownApplications[float]()
    known.of(BASIS, signatures, doubled)

    known.of((BASIS[0], object()), signatures, doubled)

    assert doubled.asked == [["a", "b"], ["a", "b"]]


def test_a_row_of_which_nothing_can_be_worked_out_any_more_loses_its_value() -> None:
    signatures = {"a": row("a")}
    known = KnownApplications[float]()
    known.of(BASIS, signatures, Doubled(signatures))
    signatures["a"] = [replace(row("a")[0], freq_ghz=1.7)]

    assert known.of(BASIS, signatures, lambda _apps: []) == {}
