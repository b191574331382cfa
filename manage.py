#!/usr/bin/env python
"""The command line in a checkout. Where MSH is installed, it is `msh`."""

from msh.standalone.__main__ import main

if __name__ == "__main__":
    main()
