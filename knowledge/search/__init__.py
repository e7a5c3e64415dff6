"""What finding again rests on: words, fusion of scores, relevance."""
