"""`python -m cli.together PROCESS SERVICE...`: several services in one process."""

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from cli.processes import EVERY
from coplace_client.errors import UnusableError
from shared.process.environment import run
from shared.process.life import Main, run_together


def main_of(service: str) -> Main:
    """Return the main of a service. Raises UnusableError for one that there is not."""
    if service not in EVERY:
        raise UnusableError(f"{service!r} is no service: known are {', '.join(EVERY)}")
    found: Main = import_module(f"{EVERY[service]}.app").serve
    return found


def main(name: str, services: Sequence[str]) -> None:
    """Run services in the process `name`."""
    run_together(name, {each: main_of(each) for each in services})


if __name__ == "__main__":
    process, *members = sys.argv[1:]
    run(partial(main, process, members))
