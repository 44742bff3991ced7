"""Coverage and ids against their plain twins. Must not need a broker or a store."""
