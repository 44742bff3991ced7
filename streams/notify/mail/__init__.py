"""Messages by e-mail: how they look, and one attempt to hand one to the operator's SMTP server."""
