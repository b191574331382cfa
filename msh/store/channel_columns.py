"""The terms of a message that we send: those of its channel, and otherwise those of its agreement
(EB-201). What `Channel.agreed` is for one message."""

CHANNEL_OF_MESSAGE = """
    LEFT JOIN LATERAL (
        SELECT one.* FROM partners_channel one
        JOIN partners_agreement its ON its.id = one.agreement_id
        WHERE one.agreement_id = message.agreement_id AND one.direction = 'out'
          AND one.service = message.service_interface AND one.action = message.action
        ORDER BY array_position(ARRAY[message.service_type, '', its.service_type],
                                COALESCE(one.service_type, its.service_type)), one.id
        LIMIT 1) channel ON true
"""
"""For tables called `message` and `agreement`: one more, `channel`, chosen as `channel_of` does."""


def terms(*names: str) -> str:
    """Columns of these names. A channel has only what differs."""
    return ", ".join(f"COALESCE(channel.{name}, agreement.{name}) AS {name}" for name in names)
