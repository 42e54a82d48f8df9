"""Numbers that are not written in the digits 0 to 9 are refused wherever somebody types one."""

import random
from pathlib import Path
from typing import Any

import pytest
import typer
from coplace.v1.accounts_pb2 import WHEN_EMPTY_RUN, AllocationDeclared

from cli.cap.schedule import read_schedule
from cli.cap.signal import SignalRule
from cli.main import app
from cli.times import time_us
from coplace_client.errors import RejectedError, UnusableError, WrongSettingsError
from coplace_client.numbers import finite_number, is_number, is_whole, whole_number
from services.pricing.settings import PricingSettings
from shared.catalogue.contents.check import check_contents
from shared.process.rows import read_rows
from shared.process.settings import Settings
from shared.process.user_files import read_yaml
from tests.unit.cli.command_line import coplace

ODD = ("\u0661\u0662", "\uff11", "1_000", "inf", "nan", "0x10", " 1", "1\n", "", "1e999")
T0_US = 1_767_225_600_000_000


@pytest.mark.parametrize("text", ODD)
def test_an_odd_number_is_refused_by_options_files_settings_and_amounts(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        ["queue", "p1", "--limit"],
        ["limits", "set", "user", "a", "--jobs"],
    ):
        assert coplace(*words, text).exit_code == 2
    # What is not finite the command refuses itself, with its bounds.
    assert coplace("cap", "set", "p1", text).exit_code == (1 if text in ("inf", "nan") else 2)
    allocation = AllocationDeclared(
        account="a", allocated_su=text, when_empty=WHEN_EMPTY_RUN, declared_at_us=T0_US
    )
    with pytest.raises(RejectedError, match="allocated_su"):
        check_contents(allocation)
    with pytest.raises(ValueError, match="is not a"):
        SignalRule.parse(f"0.1={text},0.4=180000")
    with pytest.raises(ValueError, match="is not a time"):
        time_us(text)
    (tmp_path / "rows.csv").write_text(f'time\n"{text}x"\n')
    with pytest.raises(RejectedError, match="time: must be a number"):
        read_rows(tmp_path / "rows.csv", ("time",))[0].number_of("time")
    monkeypatch.setenv("COPLACE_SESSION_TIMEOUT_S", text)
    with pytest.raises(WrongSettingsError, match="COPLACE_SESSION_TIMEOUT_S"):
        Settings()


@pytest.mark.parametrize(
    "text", ["1_000", "0x10", "1:30", ".inf", "'1_000'", "\u0661\u0662", "'\uff11'"]
)
def test_an_odd_number_in_yaml_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "schedule.yaml"
    file.write_text(f"periods:\n  - {{from: 2027-01-01, watts: {text}}}\n")
    with pytest.raises(UnusableError, match=r"schedule\.yaml"):
        read_schedule(file)
    file.write_text("a: [1, -2, 1.5, +3, 1.5e+3, 0.25]\nb: '1_000'\n")
    assert read_yaml(file) == {"a": [1, -2, 1.5, 3, 1500.0, 0.25], "b": "1_000"}


def test_every_number_of_every_command_is_typed_in_plain_digits() -> None:
    """A command that comes is among them: the whole tree is walked."""
    group: Any = typer.main.get_command(app)

    def checked(command: Any) -> int:
        within = sum(map(checked, getattr(command, "commands", {}).values()))
        return within + sum("process_value" in vars(param) for param in command.params)

    numbers = 0
    for name in group.commands:
        numbers += checked(group.get_command(None, name))
    assert numbers > 60


def test_no_text_is_a_number_that_one_reader_takes_and_another_one_shows_otherwise() -> None:
    signs = "0123456789" * 3 + "+-.eE_ xinfa,\u0660\u0661\uff10\u09e6\u2460\u00bd\n\t"
    made = random.Random(7)
    for _ in range(20_000):
        text = "".join(made.choices(signs, k=made.randrange(8)))
        if is_number(text):
            assert text.isascii()
            assert set(text) <= set("0123456789+-.eE")
            assert finite_number(text) == float(text)
        if is_whole(text):
            assert (
                str(whole_number(text)) == text.lstrip("+").lstrip("-0").rjust(1, "0")
                or "-" in text
            )


def test_a_price_without_a_tariff_is_an_amount_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPLACE_PRICING_RATE_SU_PER_CORE_S", "1_0")
    with pytest.raises(WrongSettingsError, match="RATE_SU_PER_CORE_S"):
        PricingSettings()
