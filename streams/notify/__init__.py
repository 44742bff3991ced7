"""Alerts to their owners: at least once, in order per alert and receiver, each attempt stored in `deliveries`."""
