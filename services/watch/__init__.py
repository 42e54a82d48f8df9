"""Hands what placement decides to resource managers and users over gRPC."""
