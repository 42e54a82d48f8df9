"""The answers of the services as read-only tools of the Model Context Protocol."""
