"""What each service may do follows from the topics, and from nothing else."""

from itertools import chain, product

import fakeredis
import pytest

from cli.restore.restore import READ_MODELS
from cli.stages import access, every_stage, topics_in_use
from coplace_client.errors import UnusableError
from services.history.facts import TOPICS
from shared.catalogue.access.redis import acl_file
from shared.catalogue.access.rules import (
    CONNECT_LEADER,
    AclRule,
    Operation,
    Resource,
    kafka_commands,
    load_principals,
    strimzi_users,
)
from shared.catalogue.topics import DLQ_PREFIX
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.stages.outcomes import are_told_by
from shared.streams.stages.stage import Stage

# The command line reads as the operator.
_OF_THE_OPERATOR = {"console"}
STANDINGS = "accounts.standings"
_OF_CONNECT = ("Create", "DescribeConfigs", "Read", "Write")


def stages() -> list[Stage]:
    """Every stage in emulated runs and in production, which use different topics."""
    return [stage for rounds in RoundSource for stage in every_stage(Settings(rounds=rounds))]


def test_whoever_the_topic_files_name_is_a_principal_and_nobody_is_two() -> None:
    named = set(chain(*((*t.producers, *t.consumers) for t in topics_in_use().values())))
    called = [name for one in load_principals().values() for name in one.called]
    assert named - _OF_THE_OPERATOR <= set(called)
    assert len(called) == len(set(called))


def test_the_topic_files_name_each_stage_at_the_topics_that_it_uses_and_at_no_other() -> None:
    topics, every = topics_in_use().values(), stages()
    for name in {stage.name for stage in every}:
        inputs, outputs = (
            {*chain(*(getattr(stage, of) for stage in every if stage.name == name))}
            for of in ("inputs", "outputs")
        )
        assert {t.name for t in topics if name in t.consumers} == inputs
        if any(are_told_by(stage) for stage in every if stage.name == name):
            outputs.add("command.outcomes")
        assert {t.name for t in topics if name in t.producers} == outputs


def test_each_stage_is_the_stage_of_one_principal() -> None:
    of_principals = list(chain(*(one.stages for one in load_principals().values())))
    assert sorted(of_principals) == sorted({stage.name for stage in stages()})


def test_the_keys_of_a_read_model_are_its_principals_own() -> None:
    users = {user.name: user for user in access("ns").redis_users()}
    for name, create in READ_MODELS.items():
        [of] = [p.name for p in load_principals().values() if name in p.groups]
        model = create(fakeredis.FakeAsyncRedis(), lambda key: f"ns.{key}")
        prefixes = [key.removeprefix("~").removesuffix("*") for key in users[f"ns.{of}"].keys]
        kinds = product(("applied", "failures", "position"), model.topics)
        rows = chain(*model._keys.values(), (f"{what}:{topic}:0" for what, topic in kinds))
        for key in rows:
            assert f"ns.{key}".startswith(tuple(prefixes)), key


def test_the_history_may_write_dead_letters_of_all_that_it_reads_without_a_group() -> None:
    allowed = [rule for rule in access("").rules() if rule.name.startswith(DLQ_PREFIX)]
    writers = {(rule.principal, rule.name) for rule in allowed if rule.operation is Operation.WRITE}
    assert {name for who, name in writers if who == "history"} == {
        f"{DLQ_PREFIX}{topic}" for topic in TOPICS
    }
    assert not {who for who, _ in writers} & {"archive", "watch", "webhooks"}


def test_a_namespace_goes_before_every_name_but_kafkas_own() -> None:
    for rule in access("prod", {"north": "resource-manager", "south": "site"}).rules():
        assert rule.principal.startswith("prod.")
        name = rule.name.removeprefix(CONNECT_LEADER)
        assert name.startswith("prod.") or rule.resource is Resource.CLUSTER


def test_nobody_outside_writes_what_services_write() -> None:
    clients = {"north": "resource-manager", "finance": "billing", "slurm-a": "slurm"}
    rules = {rule for rule in access("", clients).rules() if rule.principal in clients}
    assert {str(rule) for rule in rules} == {
        "north may Read group resource-manager.*",
        "north may Read topic placement.decisions",
        "north may Read topic energy.advice",
        "finance may Read group billing.*",
        "finance may Read topic prices.charges",
        f"finance may Read topic {STANDINGS}",
        "slurm-a may Write topic slurm.jobcomp",
    }


def test_a_site_writes_what_goes_up_reads_what_comes_down_and_reaches_no_other_sites_link() -> None:
    of_sites = access("", {"north": "site", "north2": "site"})
    of = {str(rule) for rule in of_sites.rules() if rule.principal == "north"}
    up = {
        f"north may Write topic {name}" for name in ("commands", "jobs.events", "telemetry.nodes")
    }
    assert up <= of
    assert {each for each in of if "placement" in each} == {
        "north may Read topic placement.decisions"
    }
    assert {each for each in of if "authority" in each} == {"north may Read topic authority"}
    own = {each for each in of if each.endswith("*")}
    assert own == {
        *(f"north may {one} topic mirror.north.*" for one in _OF_CONNECT),
        "north may Read group mirror.north.*",
        "north may Write transactional-id mirror.north.*",
        "north may Write transactional-id connect-cluster-mirror.north.*",
    }
    other = of_sites.rules()
    assert not [r for r in other if r.principal == "north2" and "mirror.north." in r.name]


@pytest.mark.parametrize(
    ("clients", "problem"),
    [
        ({"north": "king"}, "king is not a role"),
        ({"pricing": "billing"}, "pricing is the name of a service"),
    ],
)
def test_a_client_has_a_role_that_exists_and_a_name_of_its_own(
    clients: dict[str, str], problem: str
) -> None:
    with pytest.raises(UnusableError, match=problem):
        access("", clients)


def test_another_deployments_rules_on_the_same_kafka_are_none_of_ours() -> None:
    ours = access("prod")
    foreign = AclRule("test.energy", Resource.TOPIC, "test.commands", Operation.READ)
    assert not ours.is_ours(foreign)
    for reaching in (
        AclRule("eve", Resource.TOPIC, "prod.commands", Operation.READ),
        AclRule("eve", Resource.TOPIC, "pro", Operation.READ, is_prefix=True),
        AclRule("eve", Resource.TOPIC, "prod.", Operation.WRITE, is_prefix=True),
        AclRule("eve", Resource.TOPIC, "*", Operation.READ),
        AclRule("prod.energy", Resource.CLUSTER, "kafka-cluster", Operation.ALTER),
    ):
        assert ours.is_ours(reaching)
        assert not ours.is_of_a_role(reaching)
    assert ours.is_of_a_role(
        AclRule("north", Resource.TOPIC, "prod.placement.decisions", Operation.READ)
    )


def test_both_forms_of_kafka_say_all_rules() -> None:
    rules = access().rules()
    assert len(list(kafka_commands(rules))) == len(rules)
    users = strimzi_users(rules, "main")
    acls = [acl for user in users for acl in user["spec"]["authorization"]["acls"]]
    assert sum(len(acl["operations"]) for acl in acls) == len(rules)
    assert users[0]["metadata"]["labels"] == {"strimzi.io/cluster": "main"}


def test_redis_knows_no_password_and_nobody_who_gives_no_name() -> None:
    users = access().redis_users()
    file = acl_file(users, {user.name: ["secret", "older"] for user in users})
    assert "secret" not in file
    assert "older" not in file
    assert file.count(" #") == 2 * len(users)
    assert file.startswith("user default off")
