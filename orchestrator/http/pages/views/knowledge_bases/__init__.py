"""Pages of knowledge bases: their documents, and questions to them."""
