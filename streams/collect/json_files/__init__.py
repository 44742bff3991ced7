"""JSON lines of another form in files, by a map."""
