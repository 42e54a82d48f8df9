"""Compiles the queue and the lanes that serve it: with 10,000 jobs waiting, that is the time of a
decision.

The modules stay plain Python. Where no C compiler is found they run as they are, at half the speed:
see docs/adr/0016-compiled-lanes.md.
"""

from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

LANES = sorted(map(str, Path("shared/policies/backfill").glob("[a-z]*.py")))

modules = mypycify(LANES, group_name="shared.policies")
for module in modules:
    module.optional = True
setup(ext_modules=modules)
