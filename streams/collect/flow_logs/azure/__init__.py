"""Flow logs of virtual networks of Azure."""
