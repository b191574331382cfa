"""What all addresses of the REST API use: authentication, parsers and problem documents."""
