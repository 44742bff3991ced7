"""Judges the rules across jobs: reads totals of the stored ledger, stores the alerts, hands them to the notifier."""
