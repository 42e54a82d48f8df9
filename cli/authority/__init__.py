"""`coplace authority` and `coplace audit`: who may say and ask what, and what came of it."""
