"""`coplace conformance`: the examples keep all rules, and a fault breaks the rule that is meant."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from coplace_testing.conformance.rules import AdapterRule
from tests.watch.examples import EXAMPLES, LANGUAGES, built

_WITHIN_S: Final = 540


class Fault(NamedTuple):
    """A change to the example in Python, and the rules that it breaks."""

    text: str
    wrong: str
    broken: frozenset[AdapterRule]


_STARTED: Final = "await report(facts.started(SOURCE, decision, nodes, at_us))"
_ENDED: Final = "await report(facts.ended(SOURCE, job, decision, (at_us, end[0]), outcome=end[1]))"
_ENDS: Final = "(decision.is_void or verdict == placement_pb2.VERDICT_CANCELLED)"
FAULTS: Final[Mapping[str, Fault]] = {
    "obeys twice": Fault("grant not in ends and jobs", "jobs", frozenset({AdapterRule.ONCE})),
    "forgets the cursor": Fault(
        "[CLUSTER], cursor,", '[CLUSTER], "",', frozenset({AdapterRule.CURSOR})
    ),
    "starts without grant": Fault(
        _STARTED,
        "fact = facts.started(SOURCE, decision, nodes, at_us); "
        "fact.job_started.ClearField('grant'); await report(fact)",
        frozenset({AdapterRule.STARTS}),
    ),
    "ends without grant": Fault(
        _ENDED,
        "fact = facts.ended(SOURCE, job, decision, (at_us, end[0]), outcome=end[1]); "
        "fact.job_finished.ClearField('grant'); await report(fact)",
        frozenset({AdapterRule.ENDS}),
    ),
    "starts too late": Fault(
        "at_us <= (decision.start_by_us or at_us)", "True", frozenset({AdapterRule.LATE})
    ),
    "ignores cancellations": Fault(_ENDS, "decision.is_void", frozenset({AdapterRule.CANCELLED})),
    "ignores withdrawals": Fault(
        _ENDS, "verdict == placement_pb2.VERDICT_CANCELLED", frozenset({AdapterRule.VOID})
    ),
    "ignores actions": Fault(
        "verdict == placement_pb2.VERDICT_ACTION or (",
        "(",
        frozenset({AdapterRule.ACTIONS, AdapterRule.REQUEUES}),
    ),
    "reports starts of an hour ago": Fault(
        "decision, nodes, at_us)",
        "decision, nodes, at_us - 3_600_000_000)",
        frozenset({AdapterRule.TIMES}),
    ),
    "reports once": Fault(
        "ingest.Patience()",
        "ingest.Patience(tried_again=frozenset())",
        frozenset({AdapterRule.RETRIES}),
    ),
}


class Result(NamedTuple):
    """What the command said of an adapter."""

    status: int
    rows: list[dict[str, str]]

    @property
    def failed(self) -> set[str]:
        """The numbers of the rules that it broke."""
        return {row["rule"] for row in self.rows if row["result"] == "failed"}


def check(command: str, folder: Path) -> Result:
    """Run the command on an adapter that starts in a folder of its own."""
    folder.mkdir(exist_ok=True)
    arguments = ["conformance", "--output", "json", "--answer", "3", "--command", command]
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import app; app()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    return Result(done.returncode, [json.loads(line) for line in done.stdout.splitlines()])


def _started(*command: str) -> str:
    return " ".join([*command, "20", "$COPLACE_INGEST_ADDRESS", "$COPLACE_WATCH_ADDRESS"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_keep_all_rules(language: str, tmp_path: Path) -> None:
    found = check(_started(*built(language, tmp_path / "build")), tmp_path / "run")
    assert found.failed == set()
    assert found.status == 0
    assert [row["rule"] for row in found.rows] == [each.partition(" ")[0] for each in AdapterRule]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    """What the command says of each fault: all at once, since it waits most of the time."""
    whole = (EXAMPLES / "resource_manager.py").read_text()

    def play(name: str) -> Result:
        fault, folder = FAULTS[name], tmp_path_factory.mktemp("fault")
        assert whole.count(fault.text) == 1, name
        program = folder / "adapter.py"
        program.write_text(whole.replace(fault.text, fault.wrong))
        return check(_started(sys.executable, str(program)), folder)

    with ThreadPoolExecutor(len(FAULTS)) as pool:
        return dict(zip(FAULTS, pool.map(play, FAULTS), strict=True))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_breaks_the_rule_that_is_meant(name: str, results: Mapping[str, Result]) -> None:
    broken = {rule.partition(" ")[0] for rule in FAULTS[name].broken}
    assert results[name].failed == broken, results[name].rows
    assert results[name].status == 1
    assert all(bool(row["what to do"]) == (row["rule"] in broken) for row in results[name].rows)
