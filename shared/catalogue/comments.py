"""What the comments of the `.proto` files say of services, methods, messages and fields.

Generated code has none of them. Where the files are not installed, there are no comments.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from shared.catalogue.topics import TOPIC_FILES

_PROTO_FILES: Final = TOPIC_FILES.parent / "coplace" / "v1"
_BLOCK: Final = re.compile(r"(?:message|enum|service) (\w+) \{")
_PART: Final = re.compile(r"(?:rpc (\w+)\(|(?:[\w.]+(?:<.*>)? )*?(\w+) = \d+)")


@cache
def comments() -> Mapping[str, str]:
    """Return the comment above each declaration, by the full name of what is declared."""
    files = sorted(_PROTO_FILES.glob("*.proto"))
    return {f"coplace.v1.{name}": text for file in files for name, text in _of_file(file)}


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    scope, above = list[str](), list[str]()
    for line in map(str.strip, file.read_text().splitlines()):
        if line.startswith("//"):
            above.append(line.removeprefix("//").strip())
            continue
        block, part = _BLOCK.match(line), _PART.match(line)
        found = block[1] if block else (part[1] or part[2] if part else "")
        if found and above:
            yield ".".join([*filter(None, scope), found]), " ".join(above)
        above = []
        scope += [block[1] if block else "", *[""] * line.count("{")][: line.count("{")]
        del scope[len(scope) - line.count("}") :]
