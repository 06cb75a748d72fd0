"""Release plans: several analyses, what one change of the database touches, and the bounds on the worst of it."""
