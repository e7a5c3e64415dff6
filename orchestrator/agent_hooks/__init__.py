"""Hooks of coding agents: put into their settings, what they tell, and the context that they get back."""
