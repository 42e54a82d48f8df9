"""`coplace-agent run`: the command."""

from coplace_agent.command import main

main()
