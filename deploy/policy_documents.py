"""`make settings`: write what is generated from the declarations of the policy's settings."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shared.catalogue.policy_documents import reference, variables

ROOT: Final = Path(__file__).parents[1]
_PAGE: Final = Path("docs/policy-settings.md")
_CHART: Final = Path("helm/coplace/values.schema.json")
_GENERATED: Final = re.compile(r',\n  "definitions": \{\n.*\n  \}\n\}\n\Z', re.DOTALL)
_RECORD: Final = re.compile(r"ADR (\d{4})")


def documents() -> Mapping[Path, str]:
    """Return the files as they are to be, by their paths."""
    return {ROOT / _PAGE: _linked(reference()), ROOT / _CHART: _with_variables(variables())}


def _linked(page: str) -> str:
    """Decision records are named by their numbers: link each."""
    names = {path.name[:4]: path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md")}
    return _RECORD.sub(lambda found: f"[{found[0]}](adr/{names[found[1]]})", page)


def _with_variables(found: Mapping[str, Any]) -> str:
    """The chart's schema, of which the end is generated and the rest is written by hand."""
    text = (ROOT / _CHART).read_text(encoding="utf-8")
    written = _GENERATED.sub("\n}\n", text).removesuffix("\n}\n")
    block = json.dumps({"definitions": {"policyVariables": found}}, indent=2)
    return f"{written},{block.removeprefix('{')}\n"


def main() -> None:
    """Write them all."""
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
