"""What a campaign measures, in which order, and what its file may hold."""

from collections import Counter
from pathlib import Path

import pytest

from cli.profile.campaign import (
    ALONE,
    REPORTER,
    Campaign,
    bubble_name,
    read_campaign,
    runs,
    split_command,
)
from coplace_client.errors import UnusableError

_PLACES = {"shared": {"primary": [0, 1], "beside": [0, 1]}}


def campaign(**values: object) -> Campaign:
    given = {"applications": {"a": "x", "b": "y", "c": "z"}, "placements": _PLACES, **values}
    return Campaign.model_validate(given)


def test_each_pair_bubble_and_report_is_measured_once_a_repetition_and_placement() -> None:
    found = campaign(
        bubbles={4: "p", 16.5: "q"},
        reporter="r",
        placements={"one": {"primary": [0], "beside": [1]}, **_PLACES},
        repetitions=2,
    )
    every = list(runs(found))
    assert len(set(every)) == len(every)
    counts = Counter((run.primary, run.beside) for run in every)
    assert counts["a", "b"] == counts["b", "a"] == counts["a", "a"] == 4
    assert counts["a", bubble_name(16.5)] == counts[REPORTER, "c"] == 4
    assert counts["a", ALONE] == counts[REPORTER, ALONE] == 8
    assert (REPORTER, bubble_name(4)) not in counts


def test_who_is_measured_runs_alone_before_and_behind_its_neighbours() -> None:
    every = list(runs(campaign(repetitions=2)))
    first, *besides, last = [run.beside for run in every if run.primary == "b"][:5]
    assert (first, last) == (ALONE, ALONE)
    assert besides == ["a", "b", "c"]


def test_repetitions_have_different_orders() -> None:
    every = list(runs(campaign(repetitions=3)))
    orders = {tuple(dict.fromkeys(r.primary for r in every if r.repetition == n)) for n in range(3)}
    assert len(orders) == 3


def test_commands_get_their_cores() -> None:
    assert split_command("run 'two words' {cores} end", (0, 5)) == [
        "run",
        "two words",
        "0",
        "5",
        "end",
    ]


HERE = "placements: {s: {primary: [0], beside: [1]}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"applications: {{}}\n{HERE}", "applications"),
        ("applications: {a: x}", "placements"),
        (f"applications: {{a: ''}}\n{HERE}", "a has no command"),
        (f'applications: {{a: "\'"}}\n{HERE}', "quotation"),
        (f"applications: {{reporter: x}}\n{HERE}", "'reporter'"),
        ("applications: {a: x}\nplacements: {s: {primary: [], beside: [1]}}", "primary"),
        ("- a", "the file"),
    ],
)
def test_a_file_that_is_no_campaign_is_refused_by_name(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(text)
    with pytest.raises(UnusableError, match=told):
        read_campaign(path)
