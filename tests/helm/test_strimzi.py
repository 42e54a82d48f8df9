"""The resources that Strimzi's operators make topics, users and access control lists of."""

import pytest

from cli.stages import access
from shared.catalogue.access.rules import strimzi_users
from shared.process.settings import Settings
from tests.helm import files
from tests.helm.chart import CHART, STRIMZI, named, pods, refusal, render, variables


@pytest.mark.parametrize("name", ["topics.yaml", "users.yaml", "mirrors.yaml"])
def test_the_charts_files_are_what_proto_says(name: str) -> None:
    assert (CHART / "files" / name).read_text() == files.texts()[name], "make chart-files"


@pytest.mark.parametrize("prefix", ["", "north"])
def test_each_user_may_what_the_command_line_says(prefix: str) -> None:
    sets = ("--set", f"topicPrefix={prefix},kafka.strimzi.clients.south=site")
    found = named(render(STRIMZI, *sets), "KafkaUser")
    of_sites = access(prefix, {"north": "resource-manager", "south": "site"})
    expected = files.access_lists(strimzi_users(of_sites.rules(), "region"))
    assert files.access_lists(list(found.values())) == expected


@pytest.mark.parametrize("kafka_partitions", [0, 3])
def test_topics_are_those_that_the_command_line_would_create(kafka_partitions: int) -> None:
    sets = ("--set", f"topicPrefix=north,kafka.partitions={kafka_partitions}")
    found = named(render(STRIMZI, *sets), "KafkaTopic")
    settings = Settings(namespace="north", kafka_partitions=kafka_partitions)
    specs = [found[name]["spec"] for name in sorted(found)]
    topics = [
        {"name": each["topicName"], "partitions": each["partitions"], "config": each["config"]}
        for each in specs
    ]
    assert topics == files.topics(settings)
    for each in found.values():  # they outlive the release
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_each_pod_is_the_user_of_its_service() -> None:
    documents = render(STRIMZI)
    users = named(documents, "KafkaUser")
    for name, pod, labels in pods(documents):
        given = variables(pod)
        user = given["COPLACE_KAFKA_SASL_USERNAME"]["value"]
        assert user in users, name
        password = given["COPLACE_KAFKA_SASL_PASSWORD"]["valueFrom"]["secretKeyRef"]
        assert password == {"name": user, "key": "password"}
        assert user in (labels["app.kubernetes.io/component"], "operator")
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes["kafka-tls"]["secret"]["secretName"] == "region-cluster-ca-cert"


@pytest.mark.parametrize(("replicas", "copies", "least"), [(1, 1, 1), (3, 3, 2), (5, 3, 2)])
def test_copies_go_with_the_brokers(replicas: int, copies: int, least: int) -> None:
    documents = render(STRIMZI, "--set", f"kafka.strimzi.replicas={replicas}")
    config = named(documents, "Kafka")["region"]["spec"]["kafka"]["config"]
    assert config["min.insync.replicas"] == str(least)
    for found in named(documents, "KafkaTopic").values():
        assert found["spec"]["replicas"] == copies


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ((), "needs Strimzi 0.49"),
        (("kafka.strimzi.clients.north=root",), "resource-manager"),
        (("kafka.own.enabled=true",), "not more"),
    ],
)
def test_what_cannot_work_is_refused(sets: tuple[str, ...], told: str) -> None:
    assert told in refusal(*sets, values=STRIMZI)
