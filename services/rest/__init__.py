"""Answers over HTTP and JSON what the services answer over gRPC."""
