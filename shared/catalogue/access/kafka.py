"""Kafka's users and access control list: created from the rules, and compared with them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from shared.catalogue.access.rules import Access, AclRule, Operation, Resource

_USER: Final = "User:"
_ALLOWED: Final = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ALLOW,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


class AclDifference(NamedTuple):
    """Rules that Kafka does not have, and what it allows beyond them."""

    missing: list[AclRule]
    too_much: list[AclRule]


def ensure_acls(client: KafkaAdminClient, access: Access) -> list[AclRule]:
    """Create the rules that are not there yet, and return them. Takes none away: see `difference`.

    Raises KafkaError for what the broker refuses, SecurityDisabledError where it has no authorizer.
    """
    missing = difference(client, access).missing
    if missing and (failed := client.create_acls([acl_of(rule) for rule in missing])["failed"]):
        raise failed[0](f"{len(failed)} rules of {len(missing)} were refused")
    return missing


def set_scram_passwords(client: KafkaAdminClient, passwords: Mapping[str, str]) -> None:
    """Set the password of each user in Kafka, for SCRAM-SHA-512. Raises KafkaError."""
    mechanism = ScramMechanism.SCRAM_SHA_512
    told = [UserScramCredentialUpsertion(user, mechanism, one) for user, one in passwords.items()]
    refused = client.alter_user_scram_credentials(told)
    if problems := [f"{user}: {why}" for user, why in refused.items() if why]:
        raise KafkaError(f"passwords were refused: {', '.join(problems)}")


def difference(client: KafkaAdminClient, access: Access) -> AclDifference:
    """Return what the broker's list lacks, and what it allows of this deployment beyond the rules.

    Raises KafkaError, SecurityDisabledError where the broker has no authorizer.
    """
    acls, _ = client.describe_acls(_ALLOWED)
    wanted, found = set(access.rules()), {_rule(acl) for acl in acls}
    beyond = [
        rule
        for rule in sorted(found - wanted)
        if access.is_ours(rule) and not access.is_of_a_role(rule)
    ]
    return AclDifference(sorted(wanted - found), beyond)


def acl_of(rule: AclRule) -> ACL:
    """Return the rule as Kafka's clients have it."""
    pattern = ACLResourcePatternType.PREFIXED if rule.is_prefix else ACLResourcePatternType.LITERAL
    return ACL(
        f"{_USER}{rule.principal}",
        rule.host,
        ACLOperation[rule.operation.name],
        ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType[rule.resource.name], rule.name, pattern),
    )


def _rule(acl: ACL) -> AclRule:
    resource = acl.resource_pattern
    return AclRule(
        acl.principal.removeprefix(_USER),
        Resource[resource.resource_type.name],
        resource.resource_name,
        Operation[acl.operation.name],
        resource.pattern_type == ACLResourcePatternType.PREFIXED,
        acl.host,
    )
