"""Building blocks of retrieval: lexical terms, score fusion, relevance, and comparison of texts."""
