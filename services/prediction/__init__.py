"""Predicts what a job draws before it starts, and what a pair costs each other."""
