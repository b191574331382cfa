"""The second dialect: OASIS ebXML Message Service 2.0 in SOAP 1.1 with attachments."""
