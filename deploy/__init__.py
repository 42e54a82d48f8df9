"""How Coplace is deployed: local servers, containers and topics."""
