"""The arithmetic on arrays: compiled, without Python objects. Must not do I/O or know an event."""
