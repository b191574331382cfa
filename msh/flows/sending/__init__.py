"""Application → MSH → partner: submit, transmit, acknowledge, report the outcome."""
