"""What operators look at: how a message came where it is, why it is not sent, what to do."""
