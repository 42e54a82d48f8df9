"""Compiles the queue, the schedulers that serve it, and what writes and explains what they decide:
with 10,000 jobs waiting, that is the time of a decision.

The modules stay plain Python. Without a C compiler they run as they are, at half the speed:
see docs/adr/0016-compiled-schedulers.md. COPLACE_PLAIN=1 leaves them so.
"""

import os
import shutil
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))


class WithTopics(build_py):
    """Puts schemas, topics and principals beside the catalogue that reads them; a checkout has
    them in proto/."""

    def run(self) -> None:
        """As setuptools asks for it."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "shared", "catalogue", "proto")
            shutil.copytree(
                "proto",
                target,
                ignore=shutil.ignore_patterns("*.binpb"),
                dirs_exist_ok=True,
            )


def compiled() -> list[Extension]:
    """The modules of pyproject.toml that are compiled; none where they are to stay plain."""
    if os.environ.get("COPLACE_PLAIN"):
        return []
    # Where nothing is compiled, no compiler need be there.
    from mypyc.build import mypycify

    # A cache of its own: the type checker may be at work beside it, and locks the other one.
    named = ["--cache-dir=.mypy_cache/compiled", *PROJECT["tool"]["coplace"]["compiled"]]
    # What gcc does at -O3, and what it writes for debuggers, takes it twice as long: rounds take as
    # long either way.
    modules = mypycify(named, group_name="shared.compiled", opt_level="2", debug_level="0")
    for module in modules:
        module.optional = True
    return modules


setup(ext_modules=compiled(), cmdclass={"build_py": WithTopics})
