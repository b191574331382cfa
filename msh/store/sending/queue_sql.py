"""The head of a link's queue: which message is next."""

TERMS = """
    agreement.timeout, agreement.retries, agreement.retry_interval,
    agreement.transient_count_limit, agreement.transient_time_limit,
    agreement.transient_wait_limit, agreement.early_warning
"""
"""Of a table called `agreement`: what a message takes with it when it is put in flight."""

VERSION_OF_NEXT = "concat_ws(' ', message.xmin, agreement.xmin)"
"""Changes with every change of a message or its agreement."""

# BETWEEN: with = the primary key is in this order too, and its scan, which meets all messages that
# were sent or cancelled before, looks cheaper to PostgreSQL than that of the queue's own index.
QUEUE_OF_LINK = """link_id BETWEEN link.id AND link.id
       AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
     ORDER BY link_id, id"""
REWOUND_OF_LINK = """link_id BETWEEN link.id AND link.id AND state = 'rewound'
     ORDER BY link_id, epoch, sequence_number"""
"""Which messages of the table called `link`, and in which order; a limit has to follow."""

HEAD = f"""
    (SELECT {{0}}, 0 AS turn FROM msh_outboundmessage
     WHERE {REWOUND_OF_LINK} LIMIT 1)
    UNION ALL
    (SELECT {{0}}, 1 FROM msh_outboundmessage
     WHERE {QUEUE_OF_LINK} LIMIT 1)
    ORDER BY turn LIMIT 1
"""
"""Of the table called `link`; rewound messages go before the queue, in the order of their numbers.
Format it with the columns that are wanted."""
