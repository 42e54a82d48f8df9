"""`coplace kubernetes release` gives Jobs back, or says why it cannot."""

from pathlib import Path
from typing import Any

import pytest

from cli.kubernetes import cli
from services.kubernetes.adapters.releasing import JobsReleased
from tests.unit.cli.command_line import coplace, said

JOB = "north/alpha/physics/lu/00000001/1767225600"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What is asked of clusters, and what is answered once that was put there."""
    found: list[Any] = []

    async def released(*given: Any) -> Any:
        answer = found.pop()
        found.extend(given)
        return answer

    monkeypatch.setattr(cli, "_released", released)
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: []")
    monkeypatch.setenv("COPLACE_KUBERNETES_CLUSTERS_FILE", str(file))
    return found


def test_it_says_what_is_kubernetes_now(asked: list[Any]) -> None:
    asked.append(JobsReleased(3, ["a", "b"], [], []))
    printed = said("kubernetes", "release", "--all", "--site", "north", "--queue", "batch")
    assert printed.splitlines() == ["3 Jobs are Kubernetes'", "2 run on"]
    own, job, wait_s = asked
    assert (own.site, own.queue, job, wait_s) == ("north", "batch", "", 30)


def test_it_says_what_coplace_does_not_know_yet(asked: list[Any]) -> None:
    asked.append(JobsReleased(1, [], [], [JOB]))
    assert "1 wait in Coplace until" in said("kubernetes", "release", JOB, "--site", "north")
    assert asked[1] == JOB


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (JobsReleased(0, [], [JOB], []), f"{JOB} is not given back"),
        (JobsReleased(0, [], [], []), f"no Job of the queue has the id {JOB}"),
    ],
)
def test_it_fails_where_a_job_still_waits(asked: list[Any], answer: Any, words: str) -> None:
    asked.append(answer)
    done = coplace("kubernetes", "release", JOB, "--site", "north")
    assert done.exit_code == 1
    assert words in done.stdout


@pytest.mark.parametrize("words", [(), (JOB, "--all")])
def test_a_job_or_all_is_named(words: tuple[str, ...]) -> None:
    assert coplace("kubernetes", "release", *words, "--site", "north").exit_code == 2
