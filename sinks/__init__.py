"""Where results go: leaves that receive plain rows. It must not import anything of `streams`."""
