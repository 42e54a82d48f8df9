"""Writes `topics.yaml`, `users.yaml` and `mirrors.yaml` of `helm/coplace/files`, of which the chart
makes Strimzi's resources and the link of a site: `make chart-files`. A chart can only read files of
its own folder."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from cli.stages import access, every_stage
from shared.catalogue.access.rules import load_principals, strimzi_users
from shared.catalogue.topics import load_topics
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import wanted_topics
from shared.streams.on_kafka.deployment import Deployment
from tests.helm.chart import CHART

HEAD: Final = "# Made from proto/ by `make chart-files`.\n"
# Goes before every name, and is taken out again: the chart puts its own prefix there.
_PREFIX: Final = "prefix."


def main() -> None:
    """Write the files."""
    for name, text in texts().items():
        (CHART / "files" / name).write_text(text)


def texts() -> Mapping[str, str]:
    """What the files hold."""
    found = {"topics.yaml": topics(Settings()), "users.yaml": users(), "mirrors.yaml": mirrors()}
    return {name: HEAD + yaml.safe_dump(each, sort_keys=False) for name, each in found.items()}


def topics(settings: Settings) -> list[dict[str, Any]]:
    """Every topic, dead-letter queue and changelog that the settings ask for."""
    wanted = wanted_topics(Deployment.from_settings(settings), every_stage(settings))
    return [
        {"name": name, "partitions": options["num_partitions"], "config": options["configs"]}
        for name, options in sorted(wanted.items())
    ]


def mirrors() -> Mapping[str, Sequence[str]]:
    """Topics that a site sends up to its hub, and those that come down."""
    topics = load_topics().values()
    up = sorted(t.name for t in topics if "mirror" in t.consumers and "site" in t.producers)
    down = sorted(t.name for t in topics if "site" in t.consumers and "mirror" in t.producers)
    return {"up": up, "down": down}


def users() -> Mapping[str, Mapping[str, Any]]:
    """The access control list of each service, and of each role of those outside."""
    roles = {name: name for name, one in load_principals().items() if one.is_role}
    lists = access_lists(strimzi_users(access(_PREFIX[:-1], _clients(roles)).rules(), "any"))
    plain = {name.removeprefix(_PREFIX): _without_prefix(acls) for name, acls in lists.items()}
    of_roles = {role: _of_role(role, plain.pop(f"a-{role}", [])) for role in sorted(roles)}
    return {"services": plain, "roles": of_roles}


def access_lists(documents: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Any]]:
    """The lists of Strimzi's users by their names."""
    return {each["metadata"]["name"]: each["spec"]["authorization"]["acls"] for each in documents}


def _clients(roles: Mapping[str, str]) -> Mapping[str, str]:
    return {f"a-{role}": role for role in roles}


def _without_prefix(acls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**acl, "resource": _resource(acl["resource"])} for acl in acls]


def _of_role(role: str, acls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With {client} where the client's own name is in the name of a resource."""
    own = (f"mirror.a-{role}.", "mirror.{client}.")
    return [
        {**acl, "resource": {key: name.replace(*own) for key, name in acl["resource"].items()}}
        for acl in acls
    ]


def _resource(resource: Mapping[str, str]) -> dict[str, str]:
    """With {prefix} where the prefix does not begin a name."""
    return {
        key: value.removeprefix(_PREFIX).replace(f"-{_PREFIX}", "-{prefix}")
        for key, value in resource.items()
    }


if __name__ == "__main__":
    main()
