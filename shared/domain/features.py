"""Features of nodes, and expressions of them as Slurm's `--constraint` has them: names with `&`,
`|` and parentheses.

    expression = term | term {"&" term} | term {"|" term}
    term       = name | "(" expression ")"

Slurm goes through `a&b|c` from left to right, most people read it otherwise: `&` beside `|` needs
parentheses here.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from coplace_client.errors import RejectedError

# Characters of an expression, which each job that waits keeps.
MOST_TEXT: Final = 256
# Parentheses within parentheses.
_MOST_DEPTH: Final = 16
_TOKEN: Final = re.compile(r"\s*([&|()]|[^\s&|()\[\],*!]+)")
_NAME: Final = re.compile(r"[^\s&|()\[\],*!]+")


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature by its name."""

    name: str

    def holds(self, features: Set[str]) -> bool:
        """Return whether a node with these features has it."""
        return self.name in features

    def names(self) -> frozenset[str]:
        """Return its name."""
        return frozenset((self.name,))


@dataclass(frozen=True, slots=True)
class AllOf:
    """Expressions that all have to hold."""

    parts: "tuple[Expression, ...]"

    def holds(self, features: Set[str]) -> bool:
        """Return whether all hold for a node with these features."""
        return all(part.holds(features) for part in self.parts)

    def names(self) -> frozenset[str]:
        """Return the names of all features in it."""
        return frozenset().union(*(part.names() for part in self.parts))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Expressions of which one has to hold."""

    parts: "tuple[Expression, ...]"

    def holds(self, features: Set[str]) -> bool:
        """Return whether one holds for a node with these features."""
        return any(part.holds(features) for part in self.parts)

    def names(self) -> frozenset[str]:
        """Return the names of all features in it."""
        return frozenset().union(*(part.names() for part in self.parts))


Expression = Feature | AllOf | AnyOf


def require_feature(field: str, name: str) -> None:
    """Raise RejectedError for a name that no expression can have."""
    if not name.isprintable() or len(name) > MOST_TEXT or not _NAME.fullmatch(name):
        raise RejectedError(field, f"must have no spaces and none of &|()[],*!, got {name[:40]!r}")


@lru_cache(maxsize=4096)
def parse_features(text: str) -> Expression:
    """Return the expression that a text is. Raises RejectedError, which names the place."""
    if len(text) > MOST_TEXT or not text.isprintable():
        raise RejectedError("features", f"must be at most {MOST_TEXT} printable characters")
    return _Parser(text).parse()


class _Parser:
    """Reads an expression from left to right, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self._token, self._depth = "", 0
        self._advance()

    def parse(self) -> Expression:
        found = self._expression()
        if self._token:
            self._refuse("an operator" if self._token not in "&|)" else "the end")
        return found

    def _expression(self) -> Expression:
        parts, operator = [self._term()], self._token
        if operator not in ("&", "|"):
            return parts[0]
        while self._token == operator:
            self._advance()
            parts.append(self._term())
        if self._token in ("&", "|"):
            self._refuse("parentheses to mix & and |")
        return AllOf(tuple(parts)) if operator == "&" else AnyOf(tuple(parts))

    def _term(self) -> Expression:
        token = self._token
        if token == "(":
            self._depth += 1
            if self._depth > _MOST_DEPTH:
                self._refuse(f"at most {_MOST_DEPTH} parentheses within each other")
            self._advance()
            found = self._expression()
            if self._token != ")":
                self._refuse("an operator or )")
            self._depth -= 1
            self._advance()
            return found
        if not token or token in "&|)":
            self._refuse("a feature")
        self._advance()
        return Feature(token)

    def _advance(self) -> None:
        """Go on to the next token; empty at the end."""
        found = _TOKEN.match(self._text, self._place)
        self._begins = len(self._text) if found is None else found.start(1)
        if found is None:
            rest = self._text[self._place :]
            if rest.strip():
                self._begins = self._place + len(rest) - len(rest.lstrip())
                self._token = ""
                self._refuse("a name, &, | or parentheses")
            self._token = ""
            return
        self._token, self._place = found[1], found.end()

    def _refuse(self, wanted: str) -> NoReturn:
        """Raise RejectedError for what is at the present place."""
        got = self._text[self._begins : self._begins + 20]
        there = repr(got) if got else "the end"
        problem = f"needs {wanted} at character {self._begins + 1}, got {there}"
        raise RejectedError("features", problem)
