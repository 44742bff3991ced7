"""`trainfare collect github`: jobs by the API of Github, where webhooks were lost."""
