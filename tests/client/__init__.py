"""The Python client, `msh_client`, at the real web server."""
