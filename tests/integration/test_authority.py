"""Who may publish and ask what, on real processes with mutual TLS and real Kafka and Redis: the
first table, the attacks of one site on another, and each role against each payload and each RPC."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import grpc
import orjson
import pytest
import yaml
from coplace.v1.authority_pb2 import AccessAudited
from coplace.v1.energy_service_pb2 import ProjectRequest
from coplace.v1.energy_service_pb2_grpc import EnergyServiceStub
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest, PublishStreamRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    ExplainRequest,
    ListClustersRequest,
    ListJobsRequest,
    ListLimitsRequest,
    ListReservationsRequest,
    ListTariffsRequest,
    QuoteRequest,
    ShowNodesRequest,
    ShowPolicyRequest,
    ShowPowerRequest,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from google.protobuf.json_format import ParseDict

from cli.authority.audit import read_audit
from cli.authority.file import row
from cli.stages import create_topics
from coplace_client.channels import grpc_channel
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.authority.table import message_of
from shared.catalogue.record import NewRecord, TopicPartition
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from tests.integration.test_edges_on_kafka import SLURM_END
from tests.support.certificates import certificate_authority, identity
from tests.support.patience import PATIENCE_S
from tests.unit.services.ingest.envelopes import NOW_US, PAYLOADS
from tests.unit.shared.authority.test_rules import STATEMENT, WHO

_NAMESPACE: Final = "authority"
_MODULES: Final = {
    "ingest": ("services.ingest", "INGEST"),
    "ingest-2": ("services.ingest", "INGEST"),
    "placement": ("services.placement", "PLACEMENT"),
    "energy-api": ("services.energy.api", "ENERGY_API"),
}
_DENIED: Final = grpc.StatusCode.PERMISSION_DENIED
_OK: Final = grpc.StatusCode.OK
# The neighbour, who is no part of the statement.
_SOUTH: Final = {
    "who": "south",
    "role": "resource-manager",
    "sites": ["south"],
    "accounts": ["biology"],
}
_TIMES = "submit", "start", "end"
_OWN_JOB, _THEIR_JOB, _GUEST_JOB = "north/ada-1", "south/bob-2", "south/bob-9"


class Region:
    """The processes that have doors, and their callers."""

    def __init__(self, servers: LocalServers, folder: Path) -> None:
        self.servers = servers
        self.folder = certificate_authority(folder)
        kafka = servers.kafka_bootstrap
        self.deployment = Deployment.from_settings(
            Settings(kafka_bootstrap=kafka, namespace=_NAMESPACE, kafka_partitions=4)
        )
        create_topics(self.deployment)
        self._server = identity(self.folder, "server")
        ports = free_ports(3 * len(_MODULES))
        self.ports = dict(zip(_MODULES, ports[::3], strict=True))
        self.http = dict(zip(_MODULES, ports[1::3], strict=True))
        self.token_ports = dict(zip(_MODULES, ports[2::3], strict=True))
        self.programs = {name: self._program(name) for name in _MODULES}
        servers.start(self.programs.values())
        self.settings_of = cache(lambda who: identity(self.folder, who))
        self._channels: dict[tuple[str, str], grpc.Channel] = {}
        self._sequence = 0

    def close(self) -> None:
        """End everything."""
        for channel in self._channels.values():
            channel.close()
        self.servers.remove(self.programs.values())

    def channel(self, who: str, process: str) -> grpc.Channel:
        """A connection of somebody to a process."""
        if (who, process) not in self._channels:
            address = f"localhost:{self.ports[process]}"
            self._channels[who, process] = grpc_channel(address, self.settings_of(who))
        return self._channels[who, process]

    def envelope(self, who: str, kind: str, payload: dict[str, object]) -> Envelope:
        """An event of somebody."""
        self._sequence += 1
        found = Envelope(id=f"{who}/{kind}/{self._sequence}", source=who, time_us=NOW_US)
        ParseDict(payload, getattr(found, kind))
        getattr(found, kind).SetInParent()
        return found

    def say(
        self, who: str, kind: str, payload: dict[str, object], process: str = "ingest"
    ) -> tuple[grpc.StatusCode, str]:
        """Publish one event; what came of it."""
        stub: Any = IngestServiceStub(self.channel(who, process))
        request = PublishRequest(event=self.envelope(who, kind, payload))
        return told(lambda: stub.Publish(request, timeout=30))

    def ask(self, who: str, rpc: str, request: object) -> tuple[grpc.StatusCode, str]:
        """Ask one question; what came of it."""
        is_energy = rpc == "Project"
        make: Any = EnergyServiceStub if is_energy else PlacementServiceStub
        stub = make(self.channel(who, "energy-api" if is_energy else "placement"))
        return told(lambda: getattr(stub, rpc)(request, timeout=30))

    def coplace(self, who: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of somebody."""
        own = self.settings_of(who)
        environment = {
            **self._environment(own),
            "COPLACE_REDIS_URL": self.servers.redis_url,
            "COPLACE_KAFKA_BOOTSTRAP": self.servers.kafka_bootstrap,
            "COPLACE_INGEST_ADDRESS": f"localhost:{self.ports['ingest']}",
            "COPLACE_PLACEMENT_ADDRESS": f"localhost:{self.ports['placement']}",
        }
        return subprocess.run(
            [sys.executable, "-c", "from cli.main import app; app()", *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def audited(self) -> list[AccessAudited]:
        """What is on record."""
        return list(read_audit(self.deployment))

    def metric(self, process: str, name: str) -> float:
        """The sum of a metric of a process."""
        with urlopen(f"http://127.0.0.1:{self.http[process]}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        found = [line for line in lines if line.startswith(f"coplace_{name}")]
        assert found, f"{process} has no {name}"
        return sum(float(line.split()[-1]) for line in found)

    def events(self, topic: str) -> list[Any]:
        """What a topic holds now."""
        partitions = self.deployment.topics.partitions(topic)
        with Reader(self.deployment, partitions) as reader:
            return [self.deployment.codec.decode(record) for record in reader.to_end()]

    def _program(self, name: str) -> Program:
        module, variable = _MODULES[name]
        return Program(
            f"authority-{name}",
            [sys.executable, "-m", module],
            env={
                **self.environment(),
                f"COPLACE_{variable}_PORT": str(self.ports[name]),
                "COPLACE_HTTP_PORT": str(self.http[name]),
                "COPLACE_GRPC_TOKEN_PORT": str(self.token_ports[name]),
                "COPLACE_SESSION_TIMEOUT_S": "6",
            },
            ready_url=f"http://127.0.0.1:{self.http[name]}/readyz",
        )

    def environment(self) -> dict[str, str]:
        """Of a process."""
        return self._environment(self._server)

    def _environment(self, own: Settings) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": _NAMESPACE,
            "COPLACE_KAFKA_PARTITIONS": "4",
            "COPLACE_GRPC_CA_FILE": str(own.grpc_ca_file),
            "COPLACE_GRPC_CERT_FILE": str(own.grpc_cert_file),
            "COPLACE_GRPC_KEY_FILE": str(own.grpc_key_file),
        }


def told(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    """How a call ended, and what was said of it."""
    try:
        call()
    except grpc.RpcError as error:
        failed: Any = error
        return failed.code(), str(failed.details())
    return _OK, ""


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def cluster(name: str, site: str, node_model: str) -> dict[str, object]:
    return {
        "cluster": name,
        "site": site,
        "nodeModel": node_model,
        "nodes": 8,
        "coresPerNode": 48,
        "pstatesGhz": [1.2, 2.4],
        "idlePowerW": 100,
        "peakBandwidthGbps": 200,
    }


def submission(job_id: str, user: str, account: str, reference: str) -> dict[str, object]:
    return {
        "jobId": job_id,
        "attempt": 1,
        "user": user,
        "account": account,
        "nodes": 1,
        "walltimeS": 3600,
        "referenceCluster": reference,
        "submittedAtUs": NOW_US,
    }


def finish(job_id: str, user: str, account: str, cluster: str) -> dict[str, object]:
    return {
        "jobId": job_id,
        "attempt": 1,
        "outcome": "JOB_OUTCOME_COMPLETED",
        "cluster": cluster,
        "user": user,
        "account": account,
        "nodes": 1,
        "coresPerNode": 48,
        "submittedAtUs": NOW_US,
        "startedAtUs": NOW_US,
        "endedAtUs": NOW_US + 3_600_000_000,
    }


def table_file(folder: Path, bindings: list[dict[str, Any]]) -> str:
    """A file of a table."""
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump({"bindings": bindings}))
    return str(path)


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    """Before any table: the processes of a first try."""
    found = Region(servers, tmp_path_factory.mktemp("authority"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def held(region: Region) -> Region:
    """Under a table: everybody of the statement, and the neighbour, with a job of each at work."""
    everybody = [row(binding) for binding in WHO.values()]
    path = table_file(region.folder, [*everybody, _SOUTH])
    declared = region.coplace("r", "authority", "set", path, "--reason", "two sites")
    assert declared.returncode == 0, declared.stderr
    assert "version 1 is in force" in declared.stdout
    until_version(region, 1)
    assert region.say("north", "cluster_declared", cluster("alpha", "north", "m0"))[0] is _OK
    assert region.say("south", "cluster_declared", cluster("sigma", "south", "m1"))[0] is _OK
    own = submission(_OWN_JOB, "ada", "physics", "alpha")
    theirs = submission(_THEIR_JOB, "bob", "biology", "sigma")
    assert region.say("north", "job_submitted", own)[0] is _OK
    assert region.say("south", "job_submitted", theirs, "ingest-2")[0] is _OK
    eventually(lambda: {_OWN_JOB, _THEIR_JOB} <= granted(region))
    return region


def granted(region: Region) -> set[str]:
    """The jobs of which a start was decided."""
    events = region.events("placement.decisions")
    return {event.payload.job_id for event in events if event.payload.cluster}


def test_without_a_table_everybody_is_heard_and_a_gauge_says_so(region: Region) -> None:
    assert region.metric("ingest", "authority_table_version") == 0
    assert region.say("mallory", "cluster_lost", {"cluster": "x", "lostAtUs": NOW_US})[0] is _OK
    assert region.ask("mallory", "ListClusters", ListClustersRequest())[0] is _OK
    # Who orders is on record all the same, by what they call themselves.
    [found] = region.audited()
    assert (found.who, found.action, found.refused) == ("mallory", "cluster_lost", False)
    assert found.reason.startswith("no table of authority is declared")
    shown = region.coplace("mallory", "authority", "show")
    assert "everybody may publish and ask everything" in shown.stdout
    assert "you are mallory" in shown.stdout


def test_the_first_table_must_leave_its_declarer_able_to_change_it(region: Region) -> None:
    path = table_file(region.folder, [row(WHO["region"])])
    refused = region.coplace("mallory", "authority", "set", path)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "'mallory' must be an operator of sites: ['*']" in refused.stderr
    assert region.metric("ingest", "authority_table_version") == 0


def test_a_table_that_cannot_be_read_is_refused_with_the_field(region: Region) -> None:
    for wrong, field in (
        ({"who": "x", "role": "king", "sites": ["*"]}, "bindings.0.role"),
        ({"who": "x", "role": "agent", "sites": ["no[rth"]}, "bindings.0.sites[0]"),
        ({"who": "x/y", "role": "agent", "sites": ["north"]}, "bindings.0.who"),
        ({"who": "x", "role": "agent"}, "bindings.0.sites"),
        ({"who": "x", "role": "agent", "sites": ["north"], "place": 1}, "bindings.0.place"),
    ):
        refused = region.coplace("r", "authority", "set", table_file(region.folder, [wrong]))
        assert refused.returncode == 1
        assert field in refused.stderr


def attacks() -> dict[str, tuple[str, dict[str, object]]]:
    """What site north could do to site south before there was a table."""
    at_alpha = {"jobId": _THEIR_JOB, "attempt": 1, "cluster": "alpha", "startedAtUs": NOW_US}
    return {
        "lose their cluster": ("cluster_lost", {"cluster": "sigma", "lostAtUs": NOW_US}),
        "redeclare their cluster": ("cluster_declared", cluster("sigma", "north", "m0")),
        "redeclare it as theirs": ("cluster_declared", cluster("sigma", "south", "m0")),
        "start their job": ("job_started", {**at_alpha, "nodes": ["alpha-0000"]}),
        "finish their job there": ("job_finished", finish(_THEIR_JOB, "bob", "biology", "sigma")),
        "finish it here": ("job_finished", finish(_THEIR_JOB, "bob", "biology", "alpha")),
        "bill it to another": ("job_finished", finish(_THEIR_JOB, "bob", "chemistry", "alpha")),
        "bill their account": ("job_finished", finish(_OWN_JOB, "ada", "biology", "alpha")),
        "submit for their account": (
            "job_submitted",
            submission("north/ada-7", "bob", "biology", "alpha"),
        ),
        "take their job ids": ("job_submitted", submission("south/x", "ada", "physics", "alpha")),
        "limit their users": (
            "limits_declared",
            {"subject": "LIMIT_SUBJECT_USER", "name": "bob", "mostRunningJobs": 1},
        ),
        "cancel their job": ("job_cancelled", {"jobId": _THEIR_JOB, "cancelledAtUs": NOW_US}),
        "let themselves do all": ("authority_declared", {}),
    }


@pytest.mark.parametrize("name", attacks())
@pytest.mark.parametrize("process", ["ingest", "ingest-2"])
def test_an_attack_of_a_site_on_another_is_refused_and_on_record(
    held: Region, name: str, process: str
) -> None:
    kind, payload = attacks()[name]
    if kind == "authority_declared":
        payload = {
            "version": 2,
            "bindings": [{"who": "north", "role": "AUTHORITY_ROLE_OPERATOR", "sites": ["*"]}],
            "declaredAtUs": NOW_US,
        }
    refused_before = held.metric(process, "authority_refused_total")
    code, details = held.say("north", kind, payload, process)
    assert code is _DENIED, details
    assert details.startswith(f"'north' may not {kind}")
    last = held.audited()[-1]
    assert (last.who, last.action, last.refused, last.door) == ("north", kind, True, "ingest")
    assert last.version == 1
    assert held.metric(process, "authority_refused_total") == refused_before + 1


def test_nothing_of_the_attacks_came_in(held: Region) -> None:
    ends = [each for each in held.events("jobs.events") if "JobFinished" in each.type]
    losses = [each for each in held.events("commands") if each.payload.cluster == "sigma"]
    assert ends == []
    assert [each.source for each in losses] == ["south"]


def test_nobody_asks_about_the_jobs_of_others(held: Region) -> None:
    assert held.ask("north", "Explain", ExplainRequest(job_id=_OWN_JOB))[0] is _OK
    code, details = held.ask("north", "Explain", ExplainRequest(job_id=_THEIR_JOB))
    assert code is _DENIED
    assert f"'north' may not Explain job {_THEIR_JOB}" in details
    last = held.audited()[-1]
    assert (last.who, last.action, last.door) == ("north", "Explain", "placement.api")
    unknown, _ = held.ask("north", "Explain", ExplainRequest(job_id="south/none"))
    assert unknown is _DENIED
    refused = held.coplace("north", "why", _THEIR_JOB)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "may not Explain" in refused.stderr


def test_a_guest_is_reported_by_who_it_was_granted_to(held: Region) -> None:
    """Their cluster is drained, so that their job starts on ours."""
    drained = {"cluster": "sigma", "reason": "service", "drainedAtUs": NOW_US}
    assert held.say("south", "nodes_drained", drained)[0] is _OK
    guest = submission(_GUEST_JOB, "bob", "biology", "sigma")
    started = {
        "jobId": _GUEST_JOB,
        "attempt": 1,
        "cluster": "alpha",
        "nodes": ["alpha-0007"],
        "startedAtUs": NOW_US,
        "grant": 1,
    }
    assert held.say("south", "job_submitted", guest)[0] is _OK
    eventually(lambda: _GUEST_JOB in granted(held))
    assert held.say("north", "job_started", started, "ingest-2")[0] is _OK
    wrong_account = finish(_GUEST_JOB, "bob", "physics", "alpha")
    assert held.say("north", "job_finished", wrong_account)[0] is _DENIED
    assert (
        held.say("north", "job_finished", finish(_GUEST_JOB, "bob", "biology", "alpha"))[0] is _OK
    )
    assert (
        held.say("south", "job_finished", finish(_GUEST_JOB, "bob", "biology", "sigma"))[0]
        is _DENIED
    )


def test_what_slurm_sends_of_a_site_is_held_against_the_table_too(held: Region) -> None:
    program = Program(
        "authority-jobcomp",
        [sys.executable, "-m", "services.ingest.jobcomp"],
        env={**held.environment(), "COPLACE_INGEST_JOBCOMP_SITE": "north"},
    )
    # Of the day of all other jobs here: who is months older is forgotten.
    day = {f"@{what}": f"2026-01-01T0{hour}:00:00Z" for hour, what in enumerate(_TIMES)}
    sent = [
        SLURM_END | day | {"jobid": 1, "cluster": "alpha", "account": "physics"},
        SLURM_END | day | {"jobid": 2, "cluster": "sigma", "account": "physics"},
        SLURM_END | day | {"jobid": 3, "cluster": "alpha", "account": "biology"},
    ]
    before = len(held.audited())
    with Publisher(held.deployment) as publisher:
        to = TopicPartition("slurm.jobcomp", 0)
        publisher.append(NewRecord(to, b"", orjson.dumps(message)) for message in sent)
    held.servers.start([program])
    try:
        eventually(lambda: len(held.events("dlq.slurm.jobcomp")) == 2)
    finally:
        held.servers.remove([program])
    reasons = [letter.payload.reason for letter in held.events("dlq.slurm.jobcomp")]
    assert "cluster 'sigma' of site 'south' is outside its scope" in reasons[0]
    assert "account 'biology' is outside its scope" in reasons[1]
    doors = [(found.who, found.action, found.door) for found in held.audited()[before:]]
    assert doors == [("north", "job_submitted", "ingest-jobcomp")] * 2
    came_in = {event.payload.job_id for event in held.events("jobs.events")}
    assert len([job for job in came_in if job.startswith("north/alpha/1/")]) == 1
    assert not [job for job in came_in if job.startswith(("north/sigma/", "north/alpha/3/"))]


def test_in_a_stream_what_may_not_be_said_is_listed_and_the_rest_published(held: Region) -> None:
    held_job = {"jobId": _OWN_JOB, "heldAtUs": NOW_US}
    wanted = [
        held.envelope("north", "job_held", held_job),
        held.envelope("north", "job_held", {**held_job, "jobId": _THEIR_JOB}),
        held.envelope("south", "job_held", {**held_job, "jobId": _THEIR_JOB}),
        held.envelope("north", "job_released", {"jobId": _OWN_JOB, "releasedAtUs": NOW_US + 1}),
    ]
    stub: Any = IngestServiceStub(held.channel("north", "ingest"))
    answer = stub.PublishStream((PublishStreamRequest(event=each) for each in wanted), timeout=30)
    assert (answer.published, answer.rejected) == (2, 2)
    assert [each.index for each in answer.rejections] == [1, 2]
    assert "outside its scope" in answer.rejections[0].reason
    assert "source: must be 'north'" in answer.rejections[1].reason
    assert [each.refused for each in held.audited()[-4:]] == [False, True, True, False]


# The place of the own and the neighbour's of a kind in the statement.
_PAIRS: Final = {
    "submission": ("own", "theirs"),
    "run": ("own", "theirs"),
    "finish": ("own", "theirs"),
    "order": ("own", "theirs"),
    "cluster": ("own", "theirs"),
    "measurement": ("own", "theirs"),
    "nodes": ("own", "theirs"),
    "limit": ("own user", "their user"),
    "allocation": ("own account", "their account"),
    "cap": ("own", "theirs"),
    "list": ("own cluster", "their cluster"),
    "limits": ("own site", "their site"),
    "region": ("region", "region"),
    "anything": ("all", "all"),
}


def payloads(kind: str, is_own: bool, n: int) -> dict[str, object]:
    """A valid payload about our own things, or the neighbour's."""
    job = {"jobId": _OWN_JOB if is_own else _THEIR_JOB}
    attempt = {**job, "attempt": 1}
    name, site, model = ("alpha", "north", "m0") if is_own else ("sigma", "south", "m1")
    user, account = ("ada", "physics") if is_own else ("bob", "biology")
    usual = {k: v for k, v in PAYLOADS.get(_camel(kind), {}).items() if k != "jobId"}
    named: dict[str, dict[str, object]] = {
        "job_submitted": submission(
            f"north/ada-{n}" if is_own else f"south/{n}", user, account, name
        ),
        "job_started": {**usual, **attempt, "cluster": name},
        "job_finished": finish(str(job["jobId"]), user, account, name),
        "job_requeue_asked": {**attempt, "askedAtUs": NOW_US},
        "job_suspended": {**job, "suspendedAtUs": NOW_US},
        "job_resumed": {**job, "resumedAtUs": NOW_US},
        "job_prioritized": {**job, "priority": 5, "prioritizedAtUs": NOW_US},
        "job_action_done": {**attempt, "number": 1, "doneAtUs": NOW_US},
        "job_action_refused": {**attempt, "number": 1, "refusedAtUs": NOW_US},
        "job_limit_changed": {**attempt, "endsByUs": NOW_US, "changedAtUs": NOW_US},
        "signature_measured": {**usual, "nodeModel": model},
        "node_samples": {**usual, "cluster": name, "nodeModel": model},
        "shutters_measured": {**usual, **attempt, "nodeModel": model},
        "cluster_declared": cluster(name, site, model),
        "cluster_undeclared": {"cluster": name, "reason": "old", "undeclaredAtUs": NOW_US},
        "nodes_drained": {"cluster": name, "reason": "service", "drainedAtUs": NOW_US},
        "nodes_resumed": {"cluster": name, "resumedAtUs": NOW_US},
        "jobs_reordered": {
            "manager": "its own",
            "clusters": [name],
            "jobIds": [job["jobId"]],
            "managerPriorities": [7],
            "reorderedAtUs": NOW_US,
        },
        "manager_alive": {
            "manager": "its own",
            "clusters": [name],
            "silentAfterS": 3600,
            "aliveAtUs": NOW_US,
        },
        "node_power_declared": {"cluster": name, "bootS": 60, "declaredAtUs": NOW_US},
        "limits_declared": {**usual, "name": user},
        "reservation_declared": {
            "cluster": name,
            "name": "course",
            "fromUs": NOW_US,
            "untilUs": NOW_US + 3_600_000_000,
            "declaredAtUs": NOW_US,
        },
        "licences_declared": {
            "scope": "LICENCE_SCOPE_CLUSTER",
            "place": name,
            "name": "matlab",
            "count": 5,
            "declaredAtUs": NOW_US,
        },
        "reservation_removed": {"cluster": name, "name": "course", "removedAtUs": NOW_US},
        "power_cap_declared": {**usual, "name": name},
        "policy_declared": {"tWeight": 1.0, "declaredAtUs": NOW_US},
        "coefficients_declared": {
            "nodeModel": model,
            "tpiScale": "x",
            "pstatesGhz": [2.4],
            **{letter: [1.0] for letter in "abcdef"},
            "available": [True],
            "declaredAtUs": NOW_US,
        },
        "model_pinned": {"model": "power-trees", "pinnedAtUs": NOW_US},
        "model_rolled_back": {"model": "power-trees", "rolledBackAtUs": NOW_US},
        "pairs_allowed": {"allowedAtUs": NOW_US},
        "tariff_declared": {
            "name": "held",
            "version": n + 1,
            "fromUs": NOW_US,
            "model": "PRICE_MODEL_FAIR",
            "rates": [{"resource": "core", "su": "1"}],
            "declaredAtUs": NOW_US,
        },
        "allocation_declared": {
            "account": account,
            "allocatedSu": "1000000",
            "whenEmpty": "WHEN_EMPTY_RUN",
            "declaredAtUs": NOW_US,
        },
        "period_closed": {"untilUs": NOW_US, "closedAtUs": NOW_US},
        "reprice_asked": {
            "charge": {"finished": finish(_OWN_JOB, "ada", "physics", "alpha")},
            "tariff": "held",
            "tariffVersion": 1,
            "askedAtUs": NOW_US,
        },
        "authority_declared": {},
    }
    if kind in named:
        return named[kind]
    return (
        {**usual, "cluster": name} if "cluster" in kind else {**usual, **_identified(kind, attempt)}
    )


def _identified(kind: str, attempt: dict[str, object]) -> dict[str, object]:
    """Orders are of a job, whatever its attempt."""
    is_of_attempt = kind in ("job_requeued", "job_declined", "job_seized")
    if kind == "plan_proposed":
        return {}
    return attempt if is_of_attempt else {"jobId": attempt["jobId"]}


def _camel(kind: str) -> str:
    first, *rest = kind.split("_")
    return first + "".join(word.capitalize() for word in rest)


def questions(is_own: bool) -> dict[str, object]:
    """The RPCs about our own things, or the neighbour's."""
    name = "alpha" if is_own else "sigma"
    payer = ("ada", "physics") if is_own else ("bob", "biology")
    asked = submission("north/ada-quote" if is_own else "south/quote", *payer, name)
    return {
        "Explain": ExplainRequest(job_id=_OWN_JOB if is_own else _THEIR_JOB),
        "Quote": QuoteRequest(job=ParseDict(asked, JobSubmitted())),
        "ListJobs": ListJobsRequest(cluster=name),
        "ListClusters": ListClustersRequest(),
        "ListLimits": ListLimitsRequest(site="north" if is_own else "south"),
        "ListReservations": ListReservationsRequest(cluster=name),
        "ShowNodes": ShowNodesRequest(cluster=name),
        "ShowPower": ShowPowerRequest(),
        "ListTariffs": ListTariffsRequest(),
        "ShowPolicy": ShowPolicyRequest(),
        "Project": ProjectRequest(),
    }


def may(action: str, role: str, is_own: bool) -> bool:
    """What the statement says."""
    kind, allowed = STATEMENT[action]
    return _PAIRS[kind][0 if is_own else 1] in allowed.get(role, ())


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("role", [*WHO, "mallory"])
def test_a_role_is_answered_what_the_statement_says(held: Region, role: str, is_own: bool) -> None:
    who = WHO[role].who if role in WHO else role
    answers = {rpc: held.ask(who, rpc, asked) for rpc, asked in questions(is_own).items()}
    refused = {rpc for rpc, (code, _) in answers.items() if code is _DENIED}
    assert refused == {rpc for rpc in answers if not may(rpc, role, is_own)}
    # Project asks for nothing, which its service says who is let through.
    assert {code for code, _ in answers.values()} <= {
        _OK,
        _DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
    }


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("role", [*WHO, "mallory"])
def test_a_role_is_heard_with_what_the_statement_says(
    held: Region, role: str, is_own: bool
) -> None:
    who = WHO[role].who if role in WHO else role
    kinds = [action for action in STATEMENT if action.islower() and action != "authority_declared"]
    number = len(held.audited())
    codes = {
        kind: held.say(who, kind, payloads(kind, is_own, 1000 + number + n))
        for n, kind in enumerate(kinds)
    }
    wrong = {
        kind: (code, details)
        for kind, (code, details) in codes.items()
        if code is not (_OK if may(kind, role, is_own) else _DENIED)
    }
    assert wrong == {}
    refused = [each.action for each in held.audited()[number:] if each.refused]
    assert refused == [kind for kind in kinds if not may(kind, role, is_own)]


def test_a_table_is_changed_by_operators_of_all_sites_one_version_after_the_other(
    held: Region,
) -> None:
    bindings = [*WHO.values()]
    stub: Any = IngestServiceStub(held.channel("r", "ingest"))

    def declare(version: int) -> tuple[grpc.StatusCode, str]:
        event = held.envelope("r", "authority_declared", {})
        event.authority_declared.CopyFrom(message_of(version, bindings, "again", NOW_US))
        return told(lambda: stub.Publish(PublishRequest(event=event), timeout=30))

    assert "version: must be 2, got 1" in declare(1)[1]
    assert declare(2)[0] is _OK
    assert held.metric("ingest", "authority_table_version") == 2

    code, details = held.say(
        "south", "cluster_returned", {"cluster": "sigma", "returnedAtUs": NOW_US}
    )
    assert code is _DENIED
    assert "the table of authority does not name it" in details


def until_version(region: Region, version: int) -> None:
    """Wait until every process holds to a version of the table."""

    def is_held(process: str) -> bool:
        return region.metric(process, "authority_table_version") == version

    eventually(lambda: all(map(is_held, _MODULES)))


def with_token(
    region: Region, file: Path, process: str, call: Callable[[grpc.Channel], object]
) -> tuple[grpc.StatusCode, str]:
    """The result of a call with a token and no certificate."""
    shown = Settings(grpc_ca_file=region.folder / "ca.pem", grpc_token_file=file)
    with grpc_channel(f"localhost:{region.token_ports[process]}", shown) as channel:
        return told(lambda: call(channel))


def test_a_token_is_who_it_was_issued_for_until_it_is_revoked(held: Region) -> None:
    file = held.folder / "ada.token"
    who, version = WHO["user"].who, int(held.metric("ingest", "authority_table_version"))
    issued = held.coplace("r", "tokens", "issue", who, str(file), "--days", "1")
    assert f"export COPLACE_SOURCE={who}" in issued.stdout, issued.stderr
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in issued.stdout + issued.stderr
    until_version(held, version + 1)

    def submit(source: str) -> Callable[[grpc.Channel], object]:
        payload = submission("north/ada-token", "ada", "physics", "alpha")
        event = held.envelope(source, "job_submitted", payload)
        stub: Any = IngestServiceStub
        return lambda channel: stub(channel).Publish(PublishRequest(event=event), timeout=30)

    def project(channel: grpc.Channel) -> object:
        stub: Any = EnergyServiceStub
        return stub(channel).Project(ProjectRequest(), timeout=30)

    def explain(job_id: str) -> Callable[[grpc.Channel], object]:
        stub: Any = PlacementServiceStub
        asked = ExplainRequest(job_id=job_id)
        return lambda channel: stub(channel).Explain(asked, timeout=30)

    assert with_token(held, file, "ingest", submit(who))[0] is _OK
    assert with_token(held, file, "ingest", submit("north"))[0] is _DENIED
    assert with_token(held, file, "placement", explain(_OWN_JOB))[0] is _OK
    assert with_token(held, file, "placement", explain(_THEIR_JOB))[0] is _DENIED
    # Let in: what it asks is not complete.
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert with_token(held, file, "energy-api", project)[0] is invalid

    assert "counts" in held.coplace("r", "tokens", "list").stdout
    mallory = held.coplace("north", "tokens", "revoke", who)
    assert mallory.returncode == 1
    assert "may not authority_declared" in mallory.stderr
    revoked = held.coplace("r", "tokens", "revoke", who)
    assert "is revoked" in revoked.stdout, revoked.stderr
    until_version(held, version + 2)
    number = len(held.audited())
    calls = {"ingest": submit(who), "placement": explain(_OWN_JOB), "energy-api": project}
    for process, call in calls.items():
        code, details = with_token(held, file, process, call)
        assert code is grpc.StatusCode.UNAUTHENTICATED, process
        assert f"of {who!r} was revoked: have an operator issue one" in details
    refused = held.audited()[number:]
    assert [(each.who, each.action, each.refused) for each in refused] == [(who, "token", True)] * 3
    everything = "".join(log.read_text() for log in held.servers.run_dir.glob("log/authority-*"))
    assert everything
    assert token not in everything


def test_a_restart_keeps_the_table(held: Region) -> None:
    program = held.programs["ingest-2"]
    held.servers.remove([program])
    held.servers.start([program])
    version = held.metric("ingest-2", "authority_table_version")
    assert version == held.metric("ingest", "authority_table_version") > 0
    lost = {"cluster": "sigma", "lostAtUs": NOW_US}
    held._channels.pop(("north", "ingest-2")).close()
    assert held.say("north", "cluster_lost", lost, "ingest-2")[0] is _DENIED


def test_commands_show_the_table_and_the_audit(held: Region) -> None:
    shown = held.coplace("r", "authority", "show")
    assert "declared by r at" in shown.stdout
    assert "resource-manager" in shown.stdout
    refused = held.coplace("r", "audit", "--refused", "--who", "north", "--output", "csv")
    assert "cluster_lost" in refused.stdout
    assert ",allowed," not in refused.stdout
    checked = held.coplace("r", "authority", "check", "north", "cluster_lost", "cluster=sigma")
    assert checked.returncode == 1
    assert "cluster 'sigma' of site 'south' is outside its scope" in checked.stdout


@pytest.mark.thorough
def test_where_nobodys_certificate_is_left_the_topic_is_deleted_and_a_first_table_declared(
    held: Region,
) -> None:
    topic = held.deployment.name("authority")
    with admin_client(held.deployment) as client:
        client.delete_topics([topic])
        eventually(lambda: topic not in client.list_topics())
    created = held.coplace("r", "topics", "create")
    assert created.returncode == 0, created.stderr
    programs = list(held.programs.values())
    held.servers.remove(programs)
    held.servers.start(programs)
    for channel in held._channels.values():
        channel.close()
    held._channels.clear()
    for name in held.programs:
        assert held.metric(name, "authority_table_version") == 0
    lost = {"cluster": "x", "lostAtUs": NOW_US}
    assert held.say("mallory", "cluster_lost", lost)[0] is _OK
    path = table_file(held.folder, [{"who": "olga", "role": "operator", "sites": ["*"]}])
    declared = held.coplace("olga", "authority", "set", path, "--reason", "keys were lost")
    assert "version 1 is in force" in declared.stdout, declared.stderr
    assert held.say("mallory", "cluster_lost", lost)[0] is _DENIED
    assert held.say("r", "cluster_lost", lost)[0] is _DENIED
