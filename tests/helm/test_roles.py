"""What a hub and a site are made of, and what does not fit either."""

from typing import Any

import pytest

from tests.helm.chart import (
    FIRST_TRY,
    KUBERNETES_JOBS,
    ROOT,
    SLURM,
    named,
    pods,
    refusal,
    render,
    variables,
)

SITE = ROOT / "helm/examples/site.yaml"
HUB = ("--set", "role=hub")
WAYS: tuple[tuple[str, ...], ...] = ((), ("--is-upgrade",))


def components(documents: Any) -> set[str]:
    return {labels["app.kubernetes.io/component"] for _, _, labels in pods(documents)}


def containers(job: Any) -> list[str]:
    return [each["name"] for each in job["spec"]["template"]["spec"]["containers"]]


def pod_of(name: str, documents: Any) -> Any:
    [pod] = [pod for found, pod, _ in pods(documents) if found == f"region-{name}"]
    return pod


def properties(*sets: str) -> dict[str, str]:
    words = [word for each in sets for word in ("--set", each)]
    text = named(render(SITE, *words), "ConfigMap")["region-mirror"]["data"]["mm2.properties"]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_a_site_has_the_way_in_its_resource_manager_and_the_link() -> None:
    hooks = {"preflight", "topics", "kubernetes-release"}
    assert components(render(SITE)) == {"ingest", "kubernetes", "mirror", "test"} | hooks


def test_each_site_is_tested_to_where_its_job_starts_on_a_cluster_of_its_own() -> None:
    at_site, at_hub = (
        pod_of("test", render(values))["containers"][0]["command"] for values in (SITE, FIRST_TRY)
    )
    assert at_site[at_site.index("--cluster") + 1] == "coplace-test-north"
    assert "--no-price" in at_site
    assert "--no-price" not in at_hub


def test_a_hub_is_a_region_without_resource_managers() -> None:
    assert components(render(FIRST_TRY, *HUB)) == components(render(FIRST_TRY))
    assert "kubernetes.enabled does not fit role: hub" in refusal(
        "role=hub", values=KUBERNETES_JOBS
    )
    assert "slurm.enabled does not fit role: hub" in refusal("role=hub", values=SLURM)


def test_a_site_with_a_slurm_names_the_hub_s_watch_and_is_its_site() -> None:
    cluster = {"name": "gold", "node_model": "g", "idle_power_w": 1, "peak_bandwidth_gbps": 1}
    clusters = [f"slurm.clusters[0].{name}={value}" for name, value in cluster.items()]
    clusters.append("slurm.clusters[0].pstates_ghz[0]=2")
    own = ("slurm.enabled=true", "slurm.configSecret=c", "slurm.mungeSecret=m", *clusters)
    assert "hub.watch is missing" in refusal(*own, "slurm.site=north", values=SITE)
    watch = "hub.watch=watch.hub.example.org:50054"
    assert "an installation is of one site" in refusal(*own, watch, "slurm.site=s", values=SITE)


@pytest.mark.parametrize("prefix", ["", "prod."])
def test_a_topic_goes_one_way(prefix: str) -> None:
    found = properties(f"topicPrefix={prefix.rstrip('.')}")
    up, down = (set(found[f"{way}.topics"].split(",")) for way in ("site->hub", "hub->site"))
    assert not up & down
    assert f"{prefix}jobs.events".replace(".", "[.]") in up
    assert f"{prefix}placement.decisions".replace(".", "[.]") in down


def test_what_was_rolled_back_is_not_copied_and_the_rest_once() -> None:
    found = properties()
    for cluster in ("hub", "site"):
        assert found[f"{cluster}.consumer.isolation.level"] == "read_committed"
        assert found[f"{cluster}.exactly.once.source.support"] == "enabled"


def test_two_sites_of_a_hub_share_no_group_and_no_topic_of_kafka_connect() -> None:
    keys = [f"hub.{each}.storage.topic" for each in ("offset", "config", "status")]
    keys.append("hub.group.id")
    of = [
        {properties(f"site={site},kubernetes.site={site}")[key] for key in keys}
        for site in ("north", "south")
    ]
    assert not of[0] & of[1]


def test_passwords_of_the_link_come_by_reference() -> None:
    given = variables(pod_of("mirror", render(SITE)))
    password = {"name": "coplace-hub-user", "key": "password"}
    assert given["HUB_PASSWORD"]["valueFrom"]["secretKeyRef"] == password
    assert "SITE_PASSWORD" not in given  # that Kafka asks for none
    assert 'password="${env:HUB_PASSWORD}"' in properties()["hub.sasl.jaas.config"]


def test_a_site_is_asked_for_at_both_ends_before_it_is_installed() -> None:
    own, hub = pod_of("preflight", render(SITE))["containers"]
    assert own["command"] == ["coplace", "preflight", "--new", "--without-redis"]
    assert hub["command"] == ["coplace", "preflight", "--link", "north", "--new"]
    [bootstrap] = [e for e in hub["env"] if e["name"] == "COPLACE_KAFKA_BOOTSTRAP"]
    assert bootstrap["value"] == "kafka.hub.example.org:9093"


def test_a_site_with_a_kafka_of_its_own_asks_its_hub_before_that_kafka_is_there() -> None:
    own = ("--set", "kafka.bootstrap=,kafka.own.enabled=true")
    hooks = {way: named(render(SITE, *own, *way), "Job")["region-preflight"] for way in WAYS}
    asked = {way: containers(hook) for way, hook in hooks.items()}
    assert asked == {(): ["hub"], ("--is-upgrade",): ["preflight", "hub"]}
    when = {hook["metadata"]["annotations"]["helm.sh/hook"] for hook in hooks.values()}
    assert when == {"pre-install,pre-upgrade"}


def test_the_hubs_own_kafka_is_reached_by_the_mirrors_that_are_named() -> None:
    def lets_in(*sets: str) -> int:
        policies = named(render(FIRST_TRY, *HUB, *sets), "NetworkPolicy")
        [rule] = policies["region-kafka"]["spec"]["ingress"]
        return sum("namespaceSelector" in peer for peer in rule["from"])

    labels = "matchLabels.kubernetes\\.io/metadata\\.name=north"
    assert lets_in() == 0
    assert lets_in("--set", f"networkPolicy.kafkaClients[0].namespaceSelector.{labels}") == 1


def test_brokers_of_the_chart_are_found_from_other_namespaces() -> None:
    given = variables(pod_of("kafka", render(FIRST_TRY, "--namespace", "hub")))
    listeners = given["KAFKA_ADVERTISED_LISTENERS"]["value"]
    assert listeners == "INSIDE://region-kafka.hub.svc:9092"


def test_ingest_of_a_site_takes_no_table_of_authority() -> None:
    given = variables(pod_of("ingest", render(SITE)))
    assert given["COPLACE_INGEST_OF_SITE"]["value"] == "north"


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ("role=spoke", "role"),
        ("site=", "site is missing"),
        ("site=North", "/site"),
        ("site=south", 'kubernetes.site is "north" and site is "south"'),
        ("hub.bootstrap=", "hub.bootstrap is missing"),
        ("hub.bootstrap=kafka.kafka.svc:9092", "this site's own Kafka"),
        ("hub.placement=", "hub.placement is missing"),
        ("hub.sasl.secret=", "hub.sasl.secret is missing"),
        ("hub.securityProtocol=SSL", "hub/securityProtocol"),
        ("kafka.securityProtocol=SSL", "take SASL_SSL"),
        ("redis.own.enabled=true", "redis is the hub's"),
        ("autoscaling.enabled=true", "autoscaling.enabled is the hub's"),
        ("services.planner.enabled=true", "services.planner.enabled is the hub's"),
        ("role=region", "site and hub are for role: site"),
    ],
)
def test_what_does_not_fit_a_site_is_refused(sets: str, told: str) -> None:
    assert told in refusal(sets, values=SITE)
