"""`trainfare top`: jobs by what they burn now, live on a terminal, or once for a pipe."""
