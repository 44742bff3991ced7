"""trainfare: the taxi meter for ML training."""
