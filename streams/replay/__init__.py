"""The whole meter in one process: an embedded broker, files as the log, and the same app as in production.

It must not meter by itself: whatever is read goes through the broker and the agents.
"""
