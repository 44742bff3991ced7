"""What collectors do with real and scripted sources."""
