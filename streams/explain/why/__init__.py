"""Why an alert fires or does not, and what kept its message back: from what is stored, for any instant."""
