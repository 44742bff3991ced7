"""Meters past events into the store of a live meter, in shards of their own (docs/decisions/0026-backfill.md)."""
