"""Lifecycle events to paid time: attempts, nodes, and the closed form of their ledger lines."""
