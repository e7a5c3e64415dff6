"""What hardwon is worth on data: the demonstration, the evaluations, and whether all of it works here."""
