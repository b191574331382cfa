"""One MSH on one machine: the commands that set it up and run it. A Django app without models.

running     `manage.py up`: start everything, wait until it is ready, watch it; not for production
supervisor  the processes of the MSH, restarted when they end
embedded    PostgreSQL and Valkey as child processes; needs nothing of Django
datafolder  the files of a data folder: settings, passwords, addresses of the servers
management  the commands up, prepare, setup, consumer, token, smtpd, rotate-keys
"""
