import csv
from pathlib import Path

import pytest

from coplace_client.errors import RejectedError
from lab.workloads.table1 import APPS, NODE_MODELS, profile


def test_the_times_and_powers_are_those_that_the_authors_published_as_data(data_dir: Path) -> None:
    models = {"0": "platinum-8168", "1": "gold-6254"}
    by_number = {app.number: app for app in APPS.values()}
    with (data_dir / "eamc" / "apps.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 16
    for row in rows:
        printed = by_number[int(row["app_id"])].on[models[row["module_idx"]]]
        # The table prints two decimals and whole watts, and cuts one time instead of rounding it.
        assert printed.time_s == pytest.approx(float(row["time_s"]), abs=0.01)
        assert printed.power_w == pytest.approx(float(row["dc_node_power_w"]), abs=0.5)


def test_the_slope_is_per_tenth_of_a_gigahertz_since_ep_scales_with_the_clock() -> None:
    ep = profile("ep.D", "platinum-8168")
    steps = len(NODE_MODELS["platinum-8168"].pstates_ghz) - 1
    slowdown_ratio = 1 + steps * ep.slope_s_per_100mhz / ep.time_s
    assert steps == 15
    pstates_ghz = NODE_MODELS["gold-6254"].pstates_ghz
    assert (*pstates_ghz[:2], pstates_ghz[-1], len(pstates_ghz)) == (1.2, 1.3, 3.1, 20)
    assert slowdown_ratio == pytest.approx(2.7 / 1.2, rel=0.05)


def test_an_unknown_name_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(RejectedError, match=r"lu\.C.*got 'nothing'"):
        profile("nothing", "gold-6254")
    with pytest.raises(RejectedError, match="platinum-8168, gold-6254, got 'gold-6148'"):
        profile("lu.C", "gold-6148")
