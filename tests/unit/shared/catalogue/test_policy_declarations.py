"""A declaration names settings by fields of earlier releases, or by names and values."""

import pytest
from coplace.v1.control_pb2 import NamedSetting, PolicyDeclared

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.policy_declarations import (
    declaration_of,
    declared,
    names_in,
    reset_values,
)
from shared.catalogue.policy_settings import DECLARABLE, SETTINGS, PolicySettings
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy

NOW_US = 1_767_225_600_000_000


def by_name(**values: str) -> PolicyDeclared:
    return declaration_of(values, (), "", NOW_US)


def test_both_forms_say_the_same() -> None:
    fields = PolicyDeclared(
        policy="base", quantile=0.9, cap_sharing=True, cap_measures="end", most_requeues=2
    )
    named = by_name(
        policy="base", quantile="0.9", cap_sharing="true", cap_measures="end", most_requeues="2"
    )
    assert declared(fields) == declared(named)
    assert declared(named)["policy"] is Policy.BASE
    assert declared(named)["cap_measures"] == (Measure.END,)
    assert {*names_in(fields)} == {*names_in(named)}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_written_of_a_setting_is_read_as_it_was(name: str) -> None:
    setting = SETTINGS[name]
    assert setting.parse(setting.write(setting.default)) == setting.default
    assert setting.default == getattr(PolicySettings(), name)
    assert setting.about


@pytest.mark.parametrize("name", DECLARABLE)
def test_every_default_can_be_declared(name: str) -> None:
    setting = DECLARABLE[name]
    message = by_name(**{name: setting.write(setting.default)})
    check_contents(message)
    assert declared(message) == {name: setting.default}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (by_name(of_tomorrow="1"), "settings[0].name: 'of_tomorrow' is not a setting of this rel"),
        (by_name(most_applications="9"), "settings[0].name: 'most_applications' is not a setting"),
        (by_name(cap_margin="0.6"), "cap_margin: must be from 0 to 0.5, got 0.6"),
        (by_name(cap_margin="nan"), "cap_margin: must be from 0 to 0.5, got nan"),
        (by_name(most_requeues="1.5"), "most_requeues: must be a count, got '1.5'"),
        (by_name(policy="fifo"), "policy: must be one of base, "),
        (PolicyDeclared(policy="base", settings=by_name(policy="base").settings), "policy: is nam"),
        (PolicyDeclared(settings=[NamedSetting(name="quantile")] * 101), "settings: must hold at"),
        (declaration_of({"policy": "base"}, ["policy"], "", NOW_US), "reset[0]: policy is named t"),
    ],
)
def test_what_cannot_be_or_is_not_known_is_refused(message: PolicyDeclared, problem: str) -> None:
    message.declared_at_us = NOW_US
    with pytest.raises(RejectedError) as refused:
        check_contents(message)
    assert str(refused.value).startswith(problem)


def test_of_a_declaration_the_rest_is_left_without_some_settings() -> None:
    message = PolicyDeclared(policy="base", t_weight=2.0, reset=["threshold"])
    message.settings.extend(by_name(quantile="0.9", cap_margin="0.1").settings)
    left = reset_values(message, ["policy", "threshold", "quantile"])
    assert left is not None
    assert left == PolicyDeclared(t_weight=2.0, settings=by_name(cap_margin="0.1").settings)
    assert reset_values(left, ["t_weight", "cap_margin"]) is None
