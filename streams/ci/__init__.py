"""Jobs of CI systems: what their webhooks and their APIs say of one becomes the same events."""
