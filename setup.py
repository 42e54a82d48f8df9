"""Compiles the queue, the schedulers that serve it, and what writes and explains what they decide:
with 10,000 jobs waiting, that is the time of a decision.

The modules stay plain Python. Where no C compiler is found they run as they are, at half the speed:
see docs/adr/0016-compiled-schedulers.md.
"""

import tomllib
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))

# A cache of its own: the type checker may be at work beside it, and locks the other one.
compiled = ["--cache-dir=.mypy_cache/compiled", *PROJECT["tool"]["coplace"]["compiled"]]
modules = mypycify(compiled, group_name="shared.compiled")
for module in modules:
    module.optional = True
setup(ext_modules=modules)
