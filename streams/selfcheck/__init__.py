"""Proof that the meter is right: it audits its own tables, recounts the log, and meters a canary job of known cost."""
