"""A property plays as many times its examples as was asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.properties import TIMES

ROOT = Path(__file__).parents[3]

# It prints how many examples each item had.
PROPERTIES = """
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

numbers = st.integers()
played = Counter()


@given(numbers)
@settings(max_examples=10)
def test_inside(number):
    played["inside"] += 1


@settings(max_examples=10)
@given(numbers)
def test_outside(number):
    played["outside"] += 1


@pytest.mark.parametrize("cell", ["first", "second"])
@settings(max_examples=10)
@given(number=numbers)
def test_cells(cell, number):
    played[cell] += 1


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        played["machine"] += 1

    @rule(number=numbers)
    def take(self, number): ...


Machine.TestCase.settings = settings(max_examples=10, stateful_step_count=2)
TestMachine = Machine.TestCase


def test_no_property():
    for name, examples in played.items():
        print(f"\\n{name}={examples}")
"""


@pytest.mark.rest
@pytest.mark.parametrize(("times", "examples"), [("4", 40), ("0.5", 5)])
def test_a_property_plays_as_many_examples_as_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: str, examples: int
) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.properties"]')
    (tmp_path / "test_some.py").write_text(PROPERTIES)
    monkeypatch.setenv(TIMES, times)
    options = ["-sqc", "/dev/null", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    printed = dict(line.rsplit("=") for line in run.stdout.splitlines() if line.count("=") == 1)
    properties = ("inside", "outside", "first", "second", "machine")
    assert printed == dict.fromkeys(properties, str(examples))
