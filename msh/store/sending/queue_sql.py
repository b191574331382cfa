"""The head of a link's queue: which message is next."""

HEAD = """
    (SELECT {0}, 0 AS turn FROM msh_outboundmessage
     WHERE link_id = link.id AND state = 'rewound'
     ORDER BY epoch, sequence_number LIMIT 1)
    UNION ALL
    (SELECT {0}, 1 FROM msh_outboundmessage
     WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
     ORDER BY id LIMIT 1)
    ORDER BY turn LIMIT 1
"""
"""Of the table called `link`; rewound messages go before the queue, in the order of their numbers.
Format it with the columns that are wanted."""
