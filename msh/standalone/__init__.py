"""One whole MSH on one machine, for the demo, the tests and `make up`: not for production.

running     `manage.py up`: start everything, wait until it is ready, watch it
supervisor  the processes of the MSH, started again when they end
embedded    PostgreSQL and Valkey as child processes; needs nothing of Django
datafolder  the files of a data folder: settings, passwords, addresses of the servers
"""
