"""What is recorded is what is played, and what differs is named."""

from tests.same.__main__ import differences, main, recorded
from tests.same.digests import Digests
from tests.same.plays import plays


def test_each_play_is_recorded_and_nothing_else() -> None:
    assert {*recorded()} == {*plays()}


def test_two_demos_decide_and_charge_what_is_recorded() -> None:
    """One under caps, and one where jobs share nodes; `make same` plays all."""
    assert main(["--only", "demo: seed 1, priority"]) == 0


def test_another_word_is_distinguished_from_another_decision() -> None:
    was = {"a": Digests("1", "2"), "b": Digests("1", "2")}
    now = {"a": Digests("3", "2"), "b": Digests("3", "4"), "c": Digests("5", "6")}
    assert differences(was, now) == {
        "a": "says it in other words",
        "b": "decides or charges other things",
        "c": "is not recorded",
    }
