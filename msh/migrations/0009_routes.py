"""Messages that are sent on, and the sweep that looks for them."""

import django.db.models.deletion
from django.db import migrations, models


def schedule(apps, schema_editor):
    interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
        every=1, period="seconds"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name="sweep: forward",
        defaults={"task": "msh.tasks.forward", "interval": interval, "expire_seconds": 2},
    )


def unschedule(apps, schema_editor):
    entries = apps.get_model("django_celery_beat", "PeriodicTask").objects
    entries.filter(name="sweep: forward").delete()


class Migration(migrations.Migration):

    dependencies = [
        ('msh', '0008_delivery'),
        ('partners', '0003_routes'),
    ]

    operations = [
        migrations.AddField(
            model_name='outboundmessage',
            name='relays',
            field=models.ForeignKey(blank=True, db_index=False, help_text='The message that came to us and is sent on as this one.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='relayed_as', to='msh.inboundmessage'),
        ),
        migrations.AlterField(
            model_name='outboundmessage',
            name='action',
            field=models.TextField(verbose_name='Action'),
        ),
        migrations.AlterField(
            model_name='outboundmessage',
            name='conversation_id',
            field=models.TextField(verbose_name='ConversationId'),
        ),
        migrations.AlterField(
            model_name='outboundmessage',
            name='ref_to_message_id',
            field=models.TextField(blank=True, verbose_name='RefToMessageId'),
        ),
        migrations.AlterField(
            model_name='outboundmessage',
            name='service_interface',
            field=models.TextField(verbose_name='ServiceInterface'),
        ),
        migrations.AlterField(
            model_name='outboundpayload',
            name='label',
            field=models.TextField(blank=True),
        ),
        migrations.AddIndex(
            model_name='inboundmessage',
            index=models.Index(condition=models.Q(('state__in', ['routed', 'withheld'])), fields=['link', 'id'], name='inbound_to_send_on'),
        ),
        migrations.AddConstraint(
            model_name='outboundmessage',
            constraint=models.UniqueConstraint(condition=models.Q(('relays__isnull', False)), fields=('relays',), name='outbound_relays_once'),
        ),
        migrations.RunPython(schedule, unschedule),
        migrations.AddField(
            model_name='inboundmessage',
            name='forward_due',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='inboundmessage',
            name='forward_error',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AddField(
            model_name='inboundmessage',
            name='forward_failures',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='state',
            field=models.CharField(choices=[('accepted', 'Accepted'), ('delivered', 'Delivered'), ('rejected', 'Rejected'), ('parked', 'Parked'), ('routed', 'routed: to be sent on when it is acknowledged'), ('withheld', 'withheld: to be sent on, not acknowledged'), ('relaying', 'relaying: sent on, not acknowledged'), ('relayed', 'relayed: sent on and acknowledged')], default='accepted', max_length=12),
        ),
        migrations.AlterField(
            model_name='incident',
            name='kind',
            field=models.CharField(choices=[('retries_spent', 'RETRIES_SPENT'), ('refused_by_peer', 'REFUSED_BY_PEER'), ('transient_limit', 'TRANSIENT_LIMIT'), ('resynchronise', 'RESYNCHRONISE'), ('error_received', 'ERROR_RECEIVED'), ('sequence_gap', 'SEQUENCE_GAP'), ('sequence_stale', 'SEQUENCE_STALE'), ('sequence_conflict', 'SEQUENCE_CONFLICT'), ('message_id_reused', 'MESSAGE_ID_REUSED'), ('reset_held', 'RESET_HELD'), ('delivery_failed', 'DELIVERY_FAILED'), ('store_short', 'STORE_SHORT'), ('backlog', 'BACKLOG'), ('stuck', 'STUCK'), ('delivery_rejected', 'DELIVERY_REJECTED'), ('delivery_in_doubt', 'DELIVERY_IN_DOUBT'), ('no_consumer', 'NO_CONSUMER'), ('route_failed', 'ROUTE_FAILED')], max_length=32),
        ),
    ]
