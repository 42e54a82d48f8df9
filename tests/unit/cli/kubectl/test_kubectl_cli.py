"""`kubectl coplace` speaks of the Jobs of the namespace where kubectl is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import yaml
from coplace.v1.placement_service_pb2 import JOB_STANDING_WAITING, ExplainResponse
from typer.testing import CliRunner, Result

from cli import quote, why
from cli.kubectl import cli, current
from cli.output import Output
from coplace_client.calls import UnansweredError
from services.kubernetes.model.jobs import JobKey
from services.kubernetes.model.names import QUEUE_NAME
from shared.kubernetes.api import ApiRefusedError
from shared.kubernetes.names import JOB_ID
from tests.support.kubernetes_api import MemoryApiServer, suspended_job

JOB = "north/alpha/physics/lu/00000001/1767225600"


class Listing(MemoryApiServer):
    """It lists by any value of a label too, and does not know how Coplace names it."""

    async def get(self, key: JobKey) -> Any:
        return await super().get(key._replace(cluster="current"))

    async def patch(self, key: JobKey, body: Any) -> Any:
        return await super().patch(key._replace(cluster="current"), body)

    async def list(self, path: str, selector: str) -> Any:
        if "=" in selector:
            return await super().list(path, selector)
        [namespace] = [path.split("/")[-2]]
        found = [each for key, each in self.objects.items() if key.namespace == namespace]
        return [each for each in found if selector in each["metadata"]["labels"]], "1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryApiServer:
    """The API server of the current context, whose namespace is `physics`, and which has a Job."""
    found = Listing("current")

    class Connected:
        async def __aenter__(self) -> MemoryApiServer:
            return found

        async def __aexit__(self, *_: object) -> None:
            return None

    def at_server(where: current.Current, cluster: str = "current") -> Connected:
        assert where.context == "alpha"
        return Connected()

    for module in (cli, current):
        monkeypatch.setattr(module, "at_server", at_server)
    file = tmp_path / "kubeconfig"
    contexts = [
        {"name": "alpha", "context": {"cluster": "c", "user": "u", "namespace": "physics"}},
        {"name": "beta", "context": {"cluster": "c", "user": "u"}},
    ]
    told: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]
    }
    told |= {"users": [{"name": "u", "user": {}}], "contexts": contexts}
    told |= {"current-context": "alpha", "kind": "Config", "apiVersion": "v1"}
    file.write_text(yaml.safe_dump(told))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr(cli, "begin", lambda _ctx: None)
    found.submit(suspended_job("lu"))
    found.edit(JobKey("current", "physics", "lu"), {"metadata": {"annotations": {JOB_ID: JOB}}})
    return found


def kubectl(*words: object) -> Result:
    """What came of a command."""
    return CliRunner().invoke(cli.app, [*map(str, words)])


def test_where_kubectl_is_is_its_context_and_the_namespace_of_that(server: Any) -> None:
    assert current.current("", "", "")[1:] == ("alpha", "physics")
    assert current.current("", "beta", "")[1:] == ("beta", "default")
    assert current.current("", "", "climate")[1:] == ("alpha", "climate")


def test_why_asks_by_the_id_of_the_job(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cli, "why_id", lambda *words, **_more: asked.append(words))
    assert kubectl("why", "lu", "--placement", "here:1").exit_code == 0
    assert asked == [(JOB, "here:1", Output.TABLE)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("why", "no"), "namespace physics of alpha has no Job no"),
        (("why", "plain"), "not in a queue of Coplace"),
        (("why", "lu", "--context", "gamma"), "has no context 'gamma'"),
        (("why", "lu", "--kubeconfig", "/no/where"), "/no/where cannot be read"),
    ],
)
def test_what_cannot_be_found_is_said_in_a_line(
    server: Any, words: tuple[str, ...], problem: str
) -> None:
    server.submit(suspended_job("plain"))
    done = kubectl(*words)
    assert done.exit_code == 1
    assert problem in done.stderr


@contextmanager
def placement(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> Iterator[None]:
    """What placement says of each job; of others it knows nothing."""

    def ask(_address: str, job_id: str) -> ExplainResponse:
        if job_id not in answers:
            code = SimpleNamespace(
                code=lambda: grpc.StatusCode.NOT_FOUND,
                details=lambda: "unknown",
                trailing_metadata=tuple,
            )
            raise UnansweredError("here", code, "unknown")
        found: ExplainResponse = answers[job_id]
        return found

    monkeypatch.setattr(why, "ask", ask)
    yield


def test_jobs_are_those_of_the_namespace_that_are_in_a_queue(
    server: MemoryApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.submit(suspended_job("new"))
    plain = suspended_job("plain")
    del plain["metadata"]["labels"][QUEUE_NAME]
    server.submit(plain)
    answer = ExplainResponse(job_id=JOB, standing=JOB_STANDING_WAITING, reason="alpha is full")
    with placement(monkeypatch, {JOB: answer}):
        done = kubectl("jobs", "--output", "csv")
    assert done.exit_code == 0, done.output
    first, second, third = done.stdout.splitlines()
    assert first == "job,queue,is,cluster,expected,why,id"
    assert second == f"lu,coplace,waits,,,alpha is full,{JOB}"
    assert third == "new,coplace,not known to Coplace,,,,"


def test_a_quote_is_of_what_the_manifest_asks_for(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(quote, "show", lambda request, *_more: asked.append(request.job))
    body = {**suspended_job("lu", pods=3), "kind": "Job", "apiVersion": "batch/v1"}
    del body["metadata"]["namespace"]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(body))
    first = kubectl("quote", "-f", file)
    assert first.exit_code == 0, first.output
    assert kubectl("quote", "-f", file, "--cluster", "beta").exit_code == 0
    here, there = asked
    assert (here.nodes, here.cores_per_unit, here.walltime_s) == (3, 2, 3600)
    assert (here.user, list(here.clusters)) == ("physics", ["alpha"])
    assert list(there.clusters) == ["beta"]
    file.write_text("kind: Pod")
    assert "must be one Job" in kubectl("quote", "-f", file).stderr


def test_release_gives_one_job_back(server: MemoryApiServer) -> None:
    server.submit(suspended_job("mg"))
    done = kubectl("release", "lu", "--wait-s", "0")
    assert (done.exit_code, done.stdout) == (0, "1 Jobs are Kubernetes'\n")
    assert server.runs(JobKey("current", "physics", "lu"))
    assert not server.runs(JobKey("current", "physics", "mg"))


def test_who_may_not_release_reads_why(
    server: MemoryApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any) -> Any:
        raise ApiRefusedError("jobrecords.coplace.io is forbidden")

    monkeypatch.setattr(server, "list", refused)
    done = kubectl("release", "lu")
    assert done.exit_code == 1
    assert "jobrecords.coplace.io is forbidden" in done.stderr
