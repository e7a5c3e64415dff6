"""Learning from the runs of coding agents, as these wrote them down."""
