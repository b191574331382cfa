"""How the console writes a time: sortable, to the second, with its zone."""

DATETIME_FORMAT = "Y-m-d H:i:s e"
