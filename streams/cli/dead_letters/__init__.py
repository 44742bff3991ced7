"""`trainfare dead-letters list|show|replay`: what the meter refused, and how to send it again."""
