"""Answers without a chat model: the smallest block that answers, or the word that nothing found holds."""
