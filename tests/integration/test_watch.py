"""Decisions over gRPC from real Kafka: the examples of a resource manager are killed, and what they
watch too, and start each job once: the small form of `make watch-kills`."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest

from coplace_client.calls import UnansweredError
from coplace_client.channels import GrpcFiles
from coplace_client.decisions import DecisionWatcher, of_clusters, of_user
from deploy.local.servers import LocalServers
from tests.support.snippets import HOW_TO
from tests.watch.examples import BUILDS, EXAMPLES, LANGUAGES
from tests.watch.region import ExampleRun, WatchedRegion

JOBS = 50


@pytest.fixture(scope="module")
def region(servers: LocalServers) -> Iterator[WatchedRegion]:
    """Ingest, placement and the watch service."""
    with WatchedRegion(servers, "watch") as found:
        yield found


@pytest.fixture(scope="module")
def example(
    region: WatchedRegion, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExampleRun]:
    """What the example has done once all jobs have ended, over kills of both."""
    with ExampleRun(region, JOBS, tmp_path_factory.mktemp("example")) as run:
        run.until_started(JOBS // 4)
        region.kill("watch")
        run.until_started(JOBS // 2)
        run.kill()
        run.until_ended(JOBS)
        yield run


def test_each_job_is_started_once_over_kills_of_the_service_and_of_the_example(
    example: ExampleRun,
) -> None:
    assert example.lives == 2
    assert len(example.started()) == JOBS
    assert len({*example.started()}) == JOBS


def test_each_decision_is_obeyed_once(example: ExampleRun) -> None:
    grants = [(each.job_id, each.grant, each.verdict) for each in example.obeyed()]
    assert len({*grants}) == len(grants) == JOBS


def test_a_user_sees_the_same_starts_and_a_stranger_none(
    region: WatchedRegion, example: ExampleRun
) -> None:
    request = of_user("ada")
    request.from_earliest = True
    found = region.first(request, JOBS)
    assert sorted(each.decision.job_id for each in found) == sorted(example.started())
    with pytest.raises(TimeoutError):
        region.first(WatchDecisionsRequest(user="eve", from_earliest=True), 1, within_s=2)


def test_a_cursor_goes_on_behind_what_it_was_handed_with(
    region: WatchedRegion, example: ExampleRun
) -> None:
    request = of_clusters("north", ["example"], from_earliest=True)
    first = region.first(request, 20)
    then = region.first(of_clusters("north", ["example"], first[-1].cursor), JOBS - 20)
    jobs = [each.decision.job_id for each in (*first, *then)]
    assert sorted(jobs) == sorted(example.started())


def test_a_cursor_of_another_deployment_is_refused(region: WatchedRegion) -> None:
    watcher = DecisionWatcher(
        region.watch_address, GrpcFiles(), of_clusters("north", ["example"], "AAAA")
    )
    with pytest.raises(UnansweredError, match="cursor: ") as error:
        next(iter(watcher))
    assert error.value.code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.rest
@pytest.mark.parametrize("language", sorted({*LANGUAGES} - {"python"}))
def test_the_example_in_another_language_starts_each_job_once_over_kills(
    servers: LocalServers, tmp_path: Path, language: str
) -> None:
    with (
        WatchedRegion(servers, f"watch-{language}") as own,
        ExampleRun(own, JOBS, tmp_path, language) as run,
    ):
        run.until_started(JOBS // 4)
        own.kill("watch")
        run.until_started(JOBS // 2)
        run.kill()
        run.until_started(3 * JOBS // 4)
        run.cut()
        run.until_ended(JOBS)
        grants = [(each.job_id, each.grant, each.verdict) for each in run.obeyed()]
        assert len({*grants}) == len(grants) == JOBS


def test_no_file_of_an_example_has_more_than_sixty_lines() -> None:
    files = [each for suffix in ("py", "go", "js") for each in EXAMPLES.glob(f"**/*.{suffix}")]
    own = [each for each in files if not {"coplace", "node_modules"} & {*each.parts[-4:]}]
    assert {each.suffix for each in own} == {".py", ".go", ".js"}
    assert {each.name: n for each in own if (n := len(each.read_text().splitlines())) > 60} == {}


def test_the_page_has_its_readers_build_the_examples_as_they_are_built_here() -> None:
    page = (HOW_TO / "watch-decisions.md").read_text().splitlines()
    for command in (command for commands in BUILDS.values() for command in commands):
        assert " ".join(command) in page
