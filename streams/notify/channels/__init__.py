"""The ways of sending messages: one file a channel, with one contract."""
