"""Columns of tables. None is null, texts are compared byte by byte in each database."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Text

# PostgreSQL would compare by the language of the database.
_TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")


def text(name: str, *, primary_key: bool = False) -> Column[str]:
    """Return a column of texts."""
    return Column(name, _TEXT, primary_key=primary_key, nullable=False)


def whole(name: str, *, primary_key: bool = False) -> Column[int]:
    """Return a column of whole numbers of 64 bits."""
    return Column(name, BigInteger, primary_key=primary_key, nullable=False, autoincrement=False)


def small(name: str) -> Column[int]:
    """Return a column of whole numbers of 32 bits."""
    return Column(name, Integer, nullable=False)


def real(name: str) -> Column[float]:
    """Return a column of floating-point numbers."""
    return Column(name, Double, nullable=False)


def flag(name: str) -> Column[bool]:
    """Return a column of truth values."""
    return Column(name, Boolean, nullable=False)


def binary(name: str) -> Column[bytes]:
    """Return a column of bytes."""
    return Column(name, LargeBinary, nullable=False)
