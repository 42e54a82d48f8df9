"""Signing in at the identity provider of a region."""
