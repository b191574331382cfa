"""Partners, agreements, consumers, API tokens, users, schedules; the audit log of their changes."""
