"""Response times of a small service, and what hides them."""
