"""Commands that begin something which goes on without them: bulk jobs and maintenance windows. A
Django app without models."""
