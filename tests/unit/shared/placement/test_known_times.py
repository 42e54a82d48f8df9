"""Known times are worked out anew only where something changed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from shared.domain.signature import Signature
from shared.models.projection import Projection
from shared.placement.known_times import KnownTimes

BASIS = (object(), object())


def row(app_id: str, time_s: float = 10.0, count: int = 1) -> list[Signature]:
    return [Signature(app_id, "m", 2.0, time_s, 300.0, 0.7, 0.01, 60.0, "x", count=count)]


class Projector:
    """At half the clock everything takes half as long again; `asked` is what it was asked for."""

    def __init__(self, signatures: dict[str, list[Signature]]) -> None:
        self.signatures = signatures
        self.asked: list[list[str]] = []

    def __call__(self, apps: Sequence[str]) -> Iterable[tuple[Sequence[str], Projection]]:
        self.asked.append(list(apps))
        if apps:
            nominal = np.array([self.signatures[app][0].time_s for app in apps])
            time_s = np.stack([1.5 * nominal, nominal], axis=1)
            status = np.zeros(time_s.shape, np.uint8)
            yield apps, Projection((1.0, 2.0), time_s, time_s, status)


def test_only_rows_that_changed_are_projected_again() -> None:
    signatures = {"a": row("a"), "b": row("b")}
    projector, known = Projector(signatures), KnownTimes()
    known.of(BASIS, signatures, projector)
    signatures["b"] = row("b", time_s=20.0, count=3)
    signatures["c"] = row("c")

    found = known.of(BASIS, signatures, projector)

    assert projector.asked == [["a", "b"], ["b", "c"]]
    assert {app: (t.time_s, t.runs) for app, t in found.items()} == {
        "a": (10.0, 1),
        "b": (20.0, 3),
        "c": (10.0, 1),
    }
    assert found["a"].clock_share == pytest.approx(0.5)


def test_new_coefficients_or_another_declaration_make_all_of_it_stale() -> None:
    signatures = {"a": row("a"), "b": row("b")}
    projector, known = Projector(signatures), KnownTimes()
    known.of(BASIS, signatures, projector)

    known.of((BASIS[0], object()), signatures, projector)

    assert projector.asked == [["a", "b"], ["a", "b"]]


def test_a_row_that_lost_its_projection_loses_its_time() -> None:
    signatures = {"a": row("a")}
    known = KnownTimes()
    known.of(BASIS, signatures, Projector(signatures))
    signatures["a"] = [replace(row("a")[0], freq_ghz=1.7)]

    assert known.of(BASIS, signatures, lambda _apps: []) == {}
