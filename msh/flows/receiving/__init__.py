"""Partner → MSH: receive, answer, and forward what is for another MSH."""
