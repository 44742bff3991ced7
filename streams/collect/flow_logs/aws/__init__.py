"""Flow logs of virtual networks of AWS."""
