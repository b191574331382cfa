"""MSH → application: accepted messages are given to their consumers."""
