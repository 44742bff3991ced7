"""Where results go: components that receive plain rows. It must not import anything of `streams`."""
