"""Jobs and nodes as the API server has them, and what they are to Coplace: pure."""
