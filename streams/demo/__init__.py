"""A fleet that does not exist, metered by everything that does: broker, agents, store, alerts, webhooks, page.

It must not shortcut the meter: what is shown was read from the log, stored, and read back.
"""
