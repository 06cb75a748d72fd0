"""What is measured here, and stores."""
