"""Messages of other products, read from a folder that is given: `python -m tests.corpus FOLDER`."""
