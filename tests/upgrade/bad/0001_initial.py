"""The product's own."""

from importlib import import_module

Migration = import_module("msh.migrations.0001_initial").Migration
