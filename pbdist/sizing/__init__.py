"""Find the smallest noise that provably meets a target, with a certificate."""
