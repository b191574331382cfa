"""The terms of a message that we send: those of its channel, and otherwise those of its agreement
(EB-201). What `Channel.agreed` is for one message."""

CHANNEL_OF_MESSAGE = """
    LEFT JOIN partners_channel channel
           ON channel.agreement_id = message.agreement_id AND channel.direction = 'out'
          AND channel.service = message.service_interface AND channel.action = message.action
"""
"""For tables called `message` and `agreement`: one more, `channel`."""


def terms(*names: str) -> str:
    """Columns of these names. A channel has only what differs."""
    return ", ".join(f"COALESCE(channel.{name}, agreement.{name}) AS {name}" for name in names)
