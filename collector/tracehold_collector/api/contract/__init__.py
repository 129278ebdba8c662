"""The HTTP API as an OpenAPI 3.1 document, made from the routes, the table of needs and the catalogue of queries."""
