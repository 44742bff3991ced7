"""Backtests: which alerts a log would have had under given rules, and how they compare with labels."""
