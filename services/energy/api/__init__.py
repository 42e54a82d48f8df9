"""Answers what applications would take and draw: projections of the cached application database."""
