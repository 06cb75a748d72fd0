"""The smallest noise that will do, with its certificate."""
