"""Authentication, admission, limits and problem details, around every route."""
