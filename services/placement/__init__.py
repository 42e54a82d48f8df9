"""Decides where, when, how fast and beside whom each job runs."""
