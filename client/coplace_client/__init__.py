"""What programs outside Coplace speak to it with: facts, calls, what their fields may be.

It needs protobuf and gRPC alone, and lives in the environments of others: resource managers'
adapters, node agents, tools.
"""
