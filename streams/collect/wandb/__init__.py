"""Runs of Weights & Biases: what its files on disk say of them, and the events made of it as of MLflow's runs."""
