"""Put the services of documents on open stores."""
