"""Waits of logs under EASY, by requests and by predicted run times."""
