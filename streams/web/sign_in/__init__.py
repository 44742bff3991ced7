"""People sign in: OpenID Connect, their sessions and roles, and headers of a proxy that has signed them in."""
