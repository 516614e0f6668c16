"""What a user draws: a topology of operators as plain data, checked and shipped before anything runs."""
