"""Files that users name, read within bounds: a compressed log, a device or a hostile document must
not take all memory."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, Literal

import yaml

from coplace_client.errors import UnusableError
from coplace_client.numbers import finite_number, whole_number

# 5 million jobs of a log, whose table then takes about as much memory again.
MOST_CHARACTERS: Final = 512 * 1024 * 1024
# A job takes 100 characters; a comment of a log some thousand.
LONGEST_LINE: Final = 1024 * 1024
# A hundred clusters, written at length, take 20,000 characters and are 4 levels deep.
MOST_YAML_CHARACTERS: Final = 256 * 1024
DEEPEST_YAML: Final = 32
_GZIP_MAGIC: Final = b"\x1f\x8b"


class BrokenOffError(UnusableError):
    """A compressed file ends, or is damaged, in its middle."""


def lines(
    path: Path,
    *,
    most: int = MOST_CHARACTERS,
    longest: int = LONGEST_LINE,
    newline: str | None = None,
    errors: Literal["strict", "replace", "surrogateescape"] = "strict",
) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8, plain or compressed by gzip whatever its name.

    Raises OSError, BrokenOffError behind the last line that can be read, and UnusableError for more
    than `most` characters, for a line of more than `longest`, and for bytes that are no UTF-8
    unless these are to be replaced, or kept as lone surrogates.
    """
    left = most
    with _opened(path, newline, errors) as file:
        while line := _line(file, path, longest):
            left -= len(line)
            if left < 0:
                raise UnusableError(f"{path} has more than {most:,} characters: take a part of it")
            yield line


def _line(file: IO[str], path: Path, longest: int) -> str:
    try:
        line = file.readline(longest + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BrokenOffError(f"{path} is damaged: {error}: fetch it again") from error
    except UnicodeDecodeError as error:
        raise UnusableError(f"{path} is not UTF-8 text: {error}") from error
    if len(line) > longest:
        raise UnusableError(f"{path} has a line of over {longest:,} characters: is it text?")
    return line


def _opened(path: Path, newline: str | None, errors: str) -> IO[str]:
    with path.open("rb") as file:
        is_compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    if is_compressed:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline=newline)
    return path.open(encoding="utf-8-sig", errors=errors, newline=newline)


def read_yaml(path: Path) -> Any:
    """Read the plain values of a YAML document: no objects of Python, and no aliases, by which a
    few lines make billions of values.

    Raises OSError, and UnusableError for what is no YAML, too large or too deep.
    """
    text = "".join(lines(path, most=MOST_YAML_CHARACTERS))
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise UnusableError(f"{path} is not usable YAML: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class _PlainLoader(yaml.SafeLoader):
    """Without aliases, not deeper than DEEPEST_YAML, and with numbers in one way: YAML 1.1 takes
    `1_000`, `0x10`, `1:30` and `.inf` for numbers too."""

    _depth = 0

    def construct_yaml_int(self, node: yaml.ScalarNode) -> Any:
        """As the base class, of plain digits. Raises ValueError."""
        return whole_number(self.construct_scalar(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> Any:
        """As the base class, of plain digits or its own words for what is not finite. Raises
        ValueError."""
        text = self.construct_scalar(node)
        is_word = text.lower().lstrip("+-") in (".inf", ".nan")
        return super().construct_yaml_float(node) if is_word else finite_number(text)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As the base class, which calls it for each value within another."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has aliases (*name): write out what they mean")
        if self._depth >= DEEPEST_YAML:
            raise yaml.YAMLError(f"it is nested over {DEEPEST_YAML} levels deep")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)
_PlainLoader.add_constructor("tag:yaml.org,2002:float", _PlainLoader.construct_yaml_float)
