"""The Lease is renewed while Coplace is there."""

from typing import Any

import pytest

from coplace_client.facts import SILENT_AFTER_S
from services.kueue.adapters import lease
from services.kueue.adapters.lease import CoplaceLease
from shared.kubernetes.leases import LeaseName


class Region:
    def __init__(self, *rounds: int) -> None:
        self.rounds = list(rounds)

    async def round_us(self) -> int:
        return self.rounds.pop(0)


class Heartbeat:
    def __init__(self, ago_s: float) -> None:
        self.taken_ago_s = ago_s


@pytest.mark.parametrize(
    ("rounds", "ago_s", "expected"),
    [
        ((1, 2, 3), (1,), [False, True, True]),
        ((1, 1, 2), (1,), [False, False, True]),
        ((1, 0, 2, 3), (1,), [False, False, False, True]),
        ((1, 2), (SILENT_AFTER_S,), [False, False]),
        ((1, 2), (SILENT_AFTER_S, 3), [False, True]),
        ((1, 2), (), [False, False]),
    ],
)
async def test_placement_goes_on_and_ingest_takes_what_is_published(
    rounds: tuple[int, ...],
    ago_s: tuple[float, ...],
    expected: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renewals = list[str]()

    async def renew(_api: Any, name: LeaseName, holder: str, _lasts_s: int) -> None:
        renewals.append(f"{name.name} {holder}")

    monkeypatch.setattr(lease, "renew", renew)
    api: Any = None
    heartbeats = [Heartbeat(each) for each in ago_s]
    own = CoplaceLease(api, LeaseName("n", "l"), "north/kueue", Region(*rounds), heartbeats)
    assert [await own.look() for _ in rounds] == expected
    assert renewals == ["l north/kueue"] * sum(expected)
