"""Migrations that a later version could have, one for each form that docs/extending.md allows.

They follow the first migration of the app `msh`, for the tests only.
"""
