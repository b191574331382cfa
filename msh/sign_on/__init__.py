"""Log-in at an identity provider, and the second factor: a feature that the core does not know. It
is installed only if one of them is configured (`msh/sign_on_settings.py`)."""
