"""Webhooks of CI systems: their signatures, and the events of jobs that they become."""
