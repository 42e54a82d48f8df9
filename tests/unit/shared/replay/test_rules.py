"""The rules that a record began with."""

from dataclasses import replace
from pathlib import Path

import pytest

from coplace_client.errors import RejectedError, UnusableError
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.replay.rules import RULES, read_rules, write_rules


@pytest.mark.parametrize(
    "rules",
    [
        PolicySettings(),
        replace(PolicySettings(), policy=Policy.BASE, meter_silence_s=0.0, cap_measures=()),
        replace(PolicySettings(), t_weight=0.1 + 0.2, cap_counts_idle=False),
    ],
)
def test_rules_are_read_as_they_were_written(rules: PolicySettings, tmp_path: Path) -> None:
    write_rules(tmp_path, rules)
    found = read_rules(tmp_path / RULES)
    assert found == replace(rules, t_weight=found.t_weight)
    assert found.t_weight == pytest.approx(rules.t_weight, rel=1e-14)


def test_a_setting_without_a_line_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / RULES
    path.write_text("setting,value\nt_weight,2\n")
    assert read_rules(path) == replace(PolicySettings(), t_weight=2.0)


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("t_wait,2", UnusableError, "'t_wait' in row 1 .line 2. of .* is not a setting"),
        ("t_weight,many", RejectedError, "t_weight: must be a number, got 'many' in row 1"),
        ("policy,best", RejectedError, "policy: must be one of .* in row 1"),
    ],
)
def test_what_is_no_setting_is_refused_by_its_row(
    line: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    path = tmp_path / RULES
    path.write_text(f"setting,value\n{line}\n")
    with pytest.raises(error, match=words):
        read_rules(path)
