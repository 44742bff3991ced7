"""Training jobs of clouds: what their APIs say of a job, from files or commands, as its lifecycle."""
