"""The store: every SQL statement and every change of state.

Flows call it and decide nothing about rows; models only describe the tables.
"""
