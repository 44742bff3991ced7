"""`trainfare top`: jobs by burn rate, live on a terminal, or once for a pipe."""
