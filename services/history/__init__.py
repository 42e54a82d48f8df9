"""What was, in SQL: read models of runs, charges, accounts and the audit, and answers from them."""
