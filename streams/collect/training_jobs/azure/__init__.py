"""Training jobs of Azure Machine Learning."""
