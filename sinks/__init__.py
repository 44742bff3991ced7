"""Where results go: components that receive plain rows."""
