"""A region of several sites behind a table of authority: users, sites and agents that do what they
may, and lie about what they may not; and an auditor that knows what was true."""
