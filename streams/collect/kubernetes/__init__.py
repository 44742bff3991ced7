"""Jobs of Kubernetes: what pods and nodes say, and the events made of it."""
