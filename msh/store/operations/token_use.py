"""The token that a request to the API shows, and when it was last used."""

from typing import Any

from msh.models.api_token import USE_NOTED_EVERY
from msh.store.engine import Statement, Write, run

# Requests of one token come at once: one of them writes, and none waits for it.
_NOTE = Write("""
    UPDATE msh_apitoken SET last_used = statement_timestamp()
    WHERE id = (
        SELECT id FROM msh_apitoken
        WHERE id = %(id)s
          AND (last_used IS NULL OR last_used <= statement_timestamp() - %(every)s::interval)
        FOR NO KEY UPDATE SKIP LOCKED)
""")

# Of its user, what every request asks for; and which permissions of ours that user has.
_FIND = Statement(
    """
    SELECT token.id, token.user_id, token.name, token.sha256, token.scopes, token.expires,
           token.networks, token.created, token.last_used,
           owner.username, owner.is_active, owner.is_superuser,
           ARRAY(SELECT permission.codename
                 FROM auth_permission permission
                 JOIN django_content_type subject ON subject.id = permission.content_type_id
                 WHERE subject.app_label = 'msh' AND permission.id IN (
                     SELECT permission_id FROM auth_user_user_permissions
                     WHERE user_id = token.user_id
                     UNION ALL
                     SELECT granted.permission_id FROM auth_user_groups member
                     JOIN auth_group_permissions granted ON granted.group_id = member.group_id
                     WHERE member.user_id = token.user_id)
           ) AS permissions,
           ARRAY(SELECT partner_id FROM msh_apitoken_partners WHERE apitoken_id = token.id)
               AS partner_ids,
           coalesce(token.last_used > statement_timestamp() - %(every)s::interval, false)
               AS use_is_noted
    FROM msh_apitoken token JOIN auth_user owner ON owner.id = token.user_id
    WHERE token.sha256 = %(sha256)s
    """,
    dict,
)


def find_token(sha256: str) -> dict[str, Any] | None:
    """The columns of the token and of its user, `permissions` of that user in the app msh,
    `partner_ids` that the token is bound to, and `use_is_noted`: its use was written down
    lately."""
    (rows,) = run(_FIND(sha256=sha256, every=USE_NOTED_EVERY))
    return rows[0] if rows else None


def note_use(key: int) -> None:
    run(_NOTE(id=key, every=USE_NOTED_EVERY))
