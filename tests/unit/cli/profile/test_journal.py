"""A campaign that was interrupted goes on behind what has ended."""

from pathlib import Path

import pytest

from cli.profile.campaign import ALONE, Campaign, ProfiledRun
from cli.profile.journal import Journal
from cli.profile.running import TimedRun
from coplace_client.errors import UnusableError


def campaign(command: str = "x") -> Campaign:
    places = {"here": {"primary": [0], "beside": [0]}}
    return Campaign.model_validate({"applications": {"a": command}, "placements": places})


def measured(repetition: int) -> TimedRun:
    return TimedRun(ProfiledRun("here", repetition, "a", ALONE, 1), 1.5, 0, {"user_s": 0.5})


def test_wherever_a_kill_cuts_it_short_whole_runs_stay_and_the_next_follows(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    journal = Journal(path, campaign())
    journal.add(measured(0))
    whole = path.read_bytes()
    journal.add(measured(1))
    data = path.read_bytes()
    for length in range(len(whole), len(data)):
        path.write_bytes(data[:length])
        again = Journal(path, campaign())
        assert again.measured == [measured(0)]
        again.add(measured(2))
        assert Journal(path, campaign()).measured == [measured(0), measured(2)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello\n", "journal"),
        ('{"campaign": "other"}\n', "choose another --out"),
        ('{"x"', "journal"),
        ("null\n", "journal"),
    ],
)
def test_what_is_no_journal_of_this_campaign_is_refused(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(UnusableError, match=told):
        Journal(path, campaign())


def test_lines_that_are_no_runs_and_a_changed_campaign_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path, campaign()).add(measured(0))
    with pytest.raises(UnusableError, match="choose another --out"):
        Journal(path, campaign("y"))
    with path.open("a") as file:
        file.write('{"run": ["here"], "run_s": "soon"}\n')
    with pytest.raises(UnusableError, match="not a valid journal"):
        Journal(path, campaign())
