"""Coverage and ids against their plain twins."""
