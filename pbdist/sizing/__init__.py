"""Find the smallest noise that provably meets a goal, with a certificate."""
