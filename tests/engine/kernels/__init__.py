"""Each kernel against its plain twin. Must not need a broker or a store."""
