"""The demonstration, the evaluations on labelled data, and the check of an installation."""
