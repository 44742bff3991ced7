"""Files as a log: an embedded broker and the same app as in production, until all of it is stored.

It must not meter by itself: whatever is read goes through the broker and the agents.
"""
