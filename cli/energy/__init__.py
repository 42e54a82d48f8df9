"""`coplace energy`: learn, project, choose, ask, and who misuses application names."""
