"""What is promised of licence and versions is what the declarations say."""

import re
import tomllib
from typing import Final

import yaml

from shared.catalogue.schemas import service_descriptors
from shared.catalogue.topics import load_topics
from tests.support.snippets import REPOSITORY

_PAGE: Final = (REPOSITORY / "docs" / "versions.md").read_text()
_DISTRIBUTIONS: Final = ("pyproject.toml", "client/pyproject.toml", "agent/pyproject.toml")


def _outsiders() -> set[str]:
    """The names by which topic files call programs that are not of this release."""
    principals = yaml.safe_load((REPOSITORY / "proto" / "principals.yaml").read_text())
    return {
        name
        for declared in principals.values()
        if declared.get("is_role")
        for name in declared.get("names", ())
    }


def test_a_topic_is_promised_to_be_stable_where_a_program_of_others_reads_or_writes_it() -> None:
    outsiders = _outsiders()
    assert {"billing", "resource-managers", "slurm"} <= outsiders
    used = {
        name
        for name, topic in load_topics().items()
        if outsiders & {*topic.producers, *topic.consumers}
    }
    [listed] = re.findall(r"write or read them:\n\n(.+?)\n\n", _PAGE, re.DOTALL)
    assert set(re.findall(r"`([a-z.]+)`", listed)) == used


def test_every_service_that_answers_over_grpc_is_promised_to_be_stable() -> None:
    [row] = re.findall(r"^\| gRPC: (.+?) \|", _PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {each.name for each in service_descriptors()}


def test_each_distribution_and_the_chart_name_one_licence_and_one_version() -> None:
    projects = [
        tomllib.loads((REPOSITORY / path).read_text())["project"] for path in _DISTRIBUTIONS
    ]
    chart = yaml.safe_load((REPOSITORY / "helm" / "coplace" / "Chart.yaml").read_text())
    assert {project["license"] for project in projects} == {"Apache-2.0"}
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    assert {project["version"] for project in projects} == {chart["version"], chart["appVersion"]}
    assert "SPDX-License-Identifier: Apache-2.0" in (REPOSITORY / "LICENSE").read_text()
