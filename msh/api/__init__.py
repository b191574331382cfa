"""Applications and Spark come in: REST, `/api/v1/`."""
