"""The explorer: a store in a browser, served on this machine or as one static file."""
