"""Pure decisions about alerts: who is called about what, when, and when not."""
