"""The SDK: what a training script sends, and that it neither waits nor fails for it."""
