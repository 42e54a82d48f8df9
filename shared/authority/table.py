"""The table of authority as it is declared, and which declaration is in force."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from coplace.v1.authority_pb2 import (
    AUTHORITY_ROLE_UNSPECIFIED,
    AuthorityDeclared,
    AuthorityRole,
    RoleBinding,
)
from coplace.v1.ingest_service_pb2 import ShowAuthorityResponse

from coplace_client.errors import RejectedError, Violations
from shared.authority.binding import Binding, Role
from shared.authority.issuer import Issuer
from shared.authority.rules import About, AccessVerdict, judged
from shared.authority.tokens import BearerToken, Tokens
from shared.catalogue.event import Event

_PREFIX: Final = "AUTHORITY_ROLE_"
_DECLARE: Final = "authority_declared"
_REGION: Final = About(is_region=True)


class AuthorityTable:
    """Bindings, tokens and issuer of one version. Raises RejectedError, naming the field, for what
    is none."""

    def __init__(
        self,
        version: int,
        bindings: Iterable[Binding],
        tokens: Tokens | None = None,
        issuer: Issuer | None = None,
    ) -> None:
        self.version = version
        self.bindings = tuple(bindings)
        self.tokens = tokens or Tokens()
        self.issuer = issuer
        of: dict[str, list[Binding]] = defaultdict(list)
        for binding in self.bindings:
            of[binding.who].append(binding)
        self._of: Mapping[str, list[Binding]] = of

    @classmethod
    def from_message(cls, message: AuthorityDeclared) -> "AuthorityTable":
        """Read the table that was declared."""
        if not message.version:
            raise RejectedError("version", "must be at least 1, got 0")
        if not message.bindings:
            raise RejectedError("bindings", "must hold at least one")
        found, wrong = list[Binding](), Violations()
        for number, each in enumerate(message.bindings):
            try:
                found.append(_binding(number, each))
            except RejectedError as error:
                wrong.add(error)
        wrong.require_none()
        tokens = Tokens.from_rows(message.tokens, (binding.who for binding in found))
        issuer = Issuer.from_message(message.issuer) if message.HasField("issuer") else None
        return cls(message.version, found, tokens, issuer)

    def may(self, who: str, action: str, about: About) -> AccessVerdict:
        """Return whether an identity may publish or ask something about something, and why not."""
        if not who:
            return AccessVerdict(False, "the caller has no name: show a certificate or token")
        return judged(self._of.get(who, ()), action, about)


def message_of(
    version: int,
    bindings: Iterable[Binding],
    reason: str,
    now_us: int,
    tokens: Iterable[BearerToken] = (),
    issuer: Issuer | None = None,
) -> AuthorityDeclared:
    """Return the declaration of a table."""
    rows = [
        RoleBinding(
            who=each.who,
            role=AuthorityRole.Value(_PREFIX + each.role.name),
            sites=each.sites,
            clusters=each.clusters,
            accounts=each.accounts,
            users=each.users,
            jobs=each.jobs,
        )
        for each in bindings
    ]
    return AuthorityDeclared(
        version=version,
        bindings=rows,
        reason=reason,
        declared_at_us=now_us,
        tokens=[each.message for each in tokens],
        issuer=issuer.message if issuer else None,
    )


def _binding(number: int, row: RoleBinding) -> Binding:
    try:
        return Binding(
            row.who,
            _role(row.role),
            tuple(row.sites),
            tuple(row.clusters),
            tuple(row.accounts),
            tuple(row.users),
            tuple(row.jobs),
        )
    except RejectedError as error:
        raise error.inside(f"bindings[{number}]") from None


def _role(value: AuthorityRole.ValueType) -> Role:
    if value == AUTHORITY_ROLE_UNSPECIFIED or value not in AuthorityRole.values():
        raise RejectedError("role", f"must be one of {', '.join(Role)}, got {value}")
    return Role[AuthorityRole.Name(value).removeprefix(_PREFIX)]


class TableInForce:
    """The newest declaration that counts; until there is one everybody may say everything.

    Every process folds the same topic, and so has the same table.
    """

    def __init__(self) -> None:
        self.now: AuthorityTable | None = None
        self.declared: Event | None = None

    @property
    def version(self) -> int:
        """Return the version of the table; 0 while there is none."""
        return self.now.version if self.now else 0

    @property
    def tokens(self) -> Tokens:
        """Return the tokens of the table; none while there is none."""
        return self.now.tokens if self.now else Tokens()

    @property
    def issuer(self) -> Issuer | None:
        """Return the issuer of the table; None where it declares none, and while there is none."""
        return self.now.issuer if self.now else None

    def answer(self) -> ShowAuthorityResponse:
        """Return the table and who declared it, as it is shown; nothing while there is none."""
        if self.declared is None or not isinstance(self.declared.payload, AuthorityDeclared):
            return ShowAuthorityResponse()
        return ShowAuthorityResponse(table=self.declared.payload, declared_by=self.declared.source)

    def successor(self, message: AuthorityDeclared, declarer: str) -> AuthorityTable:
        """Return the table that would be in force next. Raises RejectedError where the declaration
        is not valid: of another version, by an identity that may not, or that could not undo it."""
        found = AuthorityTable.from_message(message)
        if found.version != self.version + 1:
            problem = f"must be {self.version + 1}, got {found.version}"
            raise RejectedError(
                "version", f"{problem}: read the table in force, then set yours again"
            )
        if self.now is not None:
            _require(self.now.may(declarer, _DECLARE, _REGION), "source", declarer)
        _require(found.may(declarer, _DECLARE, _REGION), "bindings", declarer)
        return found

    def fold(self, event: Event) -> None:
        """Take a declaration in. Raises RejectedError where it does not count."""
        if not isinstance(event.payload, AuthorityDeclared):
            raise RejectedError("ce_type", f"{event.type} is not a table of authority")
        self.now = self.successor(event.payload, event.source.split("/")[0])
        self.declared = event


def _require(verdict: AccessVerdict, field: str, declarer: str) -> None:
    if not verdict.is_allowed:
        problem = f"{declarer!r} must be an operator of sites: ['*'] before and after"
        raise RejectedError(field, f"{problem}, so that it can be undone: {verdict.reason}")
