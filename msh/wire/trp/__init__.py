"""The first dialect: ebXML message header 0.21C with reliable messaging."""
