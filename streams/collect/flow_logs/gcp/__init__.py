"""Flow logs of virtual networks of Google."""
