"""The ebXML Message Service Handler."""
