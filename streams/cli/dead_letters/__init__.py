"""`trainfare dead-letters list|show|replay`: what the meter refused, and how it gets into the log again."""
