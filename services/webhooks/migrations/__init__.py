"""How the schema of the database became what it is."""
