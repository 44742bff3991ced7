"""Training jobs of Vertex AI."""
