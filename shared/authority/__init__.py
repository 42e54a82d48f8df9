"""Who may say and ask what: the table, its rules, and the doors that keep to it."""
