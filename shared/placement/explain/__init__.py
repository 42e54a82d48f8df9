"""Outcomes as messages, in words; and answers to questions."""
