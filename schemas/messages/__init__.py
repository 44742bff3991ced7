"""The messages that trainfare sends to programs: their structs, and the JSON Schemas that are made from them."""
