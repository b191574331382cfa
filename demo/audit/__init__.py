"""`make audit`: orders by the thousand from a Spark job over a bad link, and back into Spark."""
