"""Replays event files: an embedded broker and the same app as in production, until everything is stored.

Every record goes through the broker and the agents.
"""
