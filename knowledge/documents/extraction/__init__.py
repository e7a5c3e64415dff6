"""Answers in the words of the documents, without a chat model."""
