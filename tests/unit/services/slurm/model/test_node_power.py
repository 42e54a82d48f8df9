"""Nodes that Slurm switches off to save power, as its releases show them."""

from typing import Any

import pytest

from services.slurm.model.clusters import NodeHardware
from services.slurm.model.node_power import Boot, is_switched, power_of

HARDWARE = NodeHardware("gold-6254", [1.2, 3.1], 110.0, 140.0)
# As seen on 22.05, and on releases that give state and flags in one list.
OFF: list[dict[str, Any]] = [
    {"name": "n1", "state": "idle", "state_flags": ["POWERED_DOWN"]},
    {"name": "n2", "state": "idle", "state_flags": ["POWERING_DOWN"]},
    {"name": "n3", "state": ["IDLE", "CLOUD", "POWERED_DOWN"]},
    {"name": "n4", "state": "idle", "state_flags": ["POWER_SAVING"]},
    {"name": "n5", "state": ["ALLOCATED", "POWER_DOWN"]},
]
BOOTS: list[dict[str, Any]] = [
    {"name": "n6", "state": "mixed", "state_flags": ["NOT_RESPONDING", "POWERING_UP"]},
    {"name": "n7", "state": ["ALLOCATED", "POWERED_DOWN", "POWERING_UP"]},
]
ON: list[dict[str, Any]] = [
    {"name": "n8", "state": "idle", "state_flags": []},
    {"name": "n9", "state": ["IDLE", "CLOUD"]},
]
ODD: list[Any] = [{}, {"name": "n["}, {"name": "m1", "state": 7, "state_flags": [["POWERED_DOWN"]]}]


def test_nodes_are_off_or_boot_and_all_others_are_on() -> None:
    found = power_of([*OFF, *BOOTS, *ON, *ODD], "alpha", Boot(90.0, 5e4))
    assert (found.cluster, list(found.off), list(found.booting)) == (
        "alpha",
        ["n[1-5]"],
        ["n[6-7]"],
    )
    assert (found.boot_s, found.boot_energy_j) == (90.0, 5e4)
    assert all(map(is_switched, [*OFF, *BOOTS]))
    assert not any(map(is_switched, [*ON, *ODD]))


@pytest.mark.parametrize(
    ("config", "of_site_s", "boot_s"),
    [
        ({"ResumeTimeout": "300 sec"}, 0.0, 300.0),
        ({"ResumeTimeout": "300 sec"}, 90.0, 90.0),
        ({}, 0.0, 60.0),
        ({"ResumeTimeout": "INFINITE"}, 0.0, 60.0),
    ],
)
def test_a_node_boots_for_as_long_as_the_site_says_or_slurm_gives_it(
    config: dict[str, str], of_site_s: float, boot_s: float
) -> None:
    hardware = HARDWARE._replace(boot_s=of_site_s, boot_energy_j=7.0)
    assert Boot.of(config, hardware) == (boot_s, 7.0)
