"""Whether a table could be declared, asked of no server."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import coplace

_OLGA = "{who: olga, role: operator, sites: ['*']}"


def verified(folder: Path, *lines: str) -> str:
    file = folder / "authority.yaml"
    file.write_text("bindings:\n" + "".join(f"  - {line}\n" for line in lines))
    done = coplace("authority", "verify", file, "--source", "olga")
    return f"{done.exit_code}: {done.output or done.exception}"


def test_an_operator_of_all_sites_may_declare_a_table_that_leaves_them_so(tmp_path: Path) -> None:
    assert verified(tmp_path, _OLGA) == "0: olga may declare it: 1 bindings\n"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("{who: nora, role: operator, sites: ['*']}",), "'olga' must be an operator of sites"),
        ((_OLGA.replace("['*']", "[north]"),), "'olga' must be an operator of sites: ['*']"),
        ((_OLGA, "{who: ada, role: king}"), "bindings.1.role"),
        ((_OLGA, "{who: ada, role: agent}"), "bindings.1"),
        ((_OLGA, "ada"), "bindings.1"),
        ((), "bindings"),
    ],
)
def test_what_could_not_is_reported(lines: tuple[str, ...], told: str, tmp_path: Path) -> None:
    found = verified(tmp_path, *lines)
    assert not found.startswith("0:")
    assert told in found
