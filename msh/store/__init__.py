"""Where everything is read and written: every SQL statement, every change of state.

Flows call these rooms and decide nothing about rows; models only describe the tables.
"""
