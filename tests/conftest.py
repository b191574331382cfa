"""For every test: on a busy machine an example takes as long as it takes."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
