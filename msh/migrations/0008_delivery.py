"""Consumers, their deliveries (the document history), and the schedule of pruning."""

import django.core.validators
import django.db.models.deletion
import msh.models.consumer
from django.db import migrations, models


def schedule_pruning(apps, schema_editor):
    daily, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="30", hour="3", day_of_week="*", day_of_month="*", month_of_year="*"
    )
    entries = apps.get_model("django_celery_beat", "PeriodicTask").objects
    entries.get_or_create(name="prune", defaults={"task": "msh.tasks.prune", "crontab": daily})


def unschedule_pruning(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name="prune").delete()


class Migration(migrations.Migration):

    dependencies = [
        ('msh', '0007_recovery'),
        ('partners', '0001_initial'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='inboundmessage',
            name='delivery_due',
        ),
        migrations.RemoveField(
            model_name='inboundmessage',
            name='delivery_error',
        ),
        migrations.RemoveField(
            model_name='inboundmessage',
            name='delivery_failures',
        ),
        migrations.AlterField(
            model_name='inboundmessage',
            name='state',
            field=models.CharField(choices=[('accepted', 'Accepted'), ('delivered', 'Delivered'), ('rejected', 'Rejected'), ('parked', 'Parked')], default='accepted', max_length=12),
        ),
        migrations.AlterField(
            model_name='incident',
            name='kind',
            field=models.CharField(choices=[('retries_spent', 'RETRIES_SPENT'), ('refused_by_peer', 'REFUSED_BY_PEER'), ('transient_limit', 'TRANSIENT_LIMIT'), ('resynchronise', 'RESYNCHRONISE'), ('error_received', 'ERROR_RECEIVED'), ('sequence_gap', 'SEQUENCE_GAP'), ('sequence_stale', 'SEQUENCE_STALE'), ('sequence_conflict', 'SEQUENCE_CONFLICT'), ('message_id_reused', 'MESSAGE_ID_REUSED'), ('reset_held', 'RESET_HELD'), ('delivery_failed', 'DELIVERY_FAILED'), ('store_short', 'STORE_SHORT'), ('backlog', 'BACKLOG'), ('stuck', 'STUCK'), ('delivery_rejected', 'DELIVERY_REJECTED'), ('delivery_in_doubt', 'DELIVERY_IN_DOUBT'), ('no_consumer', 'NO_CONSUMER')], max_length=32),
        ),
        migrations.CreateModel(
            name='Consumer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('enabled', models.BooleanField(default=True, help_text='Off: its messages wait.')),
                ('service_interface', models.CharField(blank=True, max_length=255, verbose_name='ServiceInterface')),
                ('action', models.CharField(blank=True, max_length=255, verbose_name='Action')),
                ('kind', models.CharField(choices=[('in_process', 'in-process: called in the transaction that marks it completed'), ('http', 'HTTP: POST to an address'), ('pull', 'pull: taken and settled by the application')], max_length=10)),
                ('path', models.CharField(blank=True, help_text='In-process: the function, called with the InboundMessage.', max_length=255, validators=[msh.models.consumer.check_callable], verbose_name='dotted path')),
                ('url', models.CharField(blank=True, help_text='HTTP.', max_length=1000, validators=[msh.models.consumer.check_url], verbose_name='address')),
                ('secret', models.TextField(blank=True, default='', editable=False)),
                ('history', models.BooleanField(default=True, help_text='Write down that a message is being processed before it is. Off: an HTTP or pull consumer whose outcome is unknown is given the message again.', verbose_name='document history')),
                ('lease', models.PositiveIntegerField(default=300, help_text='Seconds of one attempt. After that its worker is taken for dead.', validators=[django.core.validators.MinValueValidator(2), django.core.validators.MaxValueValidator(86400)])),
                ('attempts', models.PositiveIntegerField(default=10, help_text='Attempts that may fail before an operator has to decide.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)])),
                ('retry_interval', models.PositiveIntegerField(default=60, help_text='Seconds from a failed attempt to the next.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(604800)])),
                ('on_failure', models.CharField(choices=[('block', 'block: the pair waits behind it'), ('park', 'park: the pair goes on without it')], default='block', help_text='When the attempts are spent, or nobody knows the outcome.', max_length=5)),
                ('resolver', models.CharField(blank=True, help_text='Dotted path of a function that is asked when the outcome is unknown. It gets the Delivery and answers new, duplicate or in_doubt. HTTP and pull only.', max_length=255, validators=[msh.models.consumer.check_callable])),
                ('partner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='partners.partner')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('processing', 'processing'), ('completed', 'completed'), ('rejected', 'rejected'), ('failed', 'failed'), ('blocked', 'blocked'), ('parked', 'parked'), ('in_doubt', 'in doubt')], max_length=10)),
                ('attempt', models.PositiveIntegerField()),
                ('failures', models.PositiveIntegerField(default=0)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('due', models.DateTimeField(blank=True, null=True)),
                ('external_id', models.TextField(blank=True, db_default='', verbose_name='external id')),
                ('detail', models.TextField(blank=True, db_default='', verbose_name='last error')),
                ('consumer', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='msh.consumer')),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='msh.inboundmessage')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ['-id'],
                'permissions': [('decide_delivery', 'Can decide what becomes of a delivery')],
            },
        ),
        migrations.AddConstraint(
            model_name='consumer',
            constraint=models.UniqueConstraint(fields=('partner', 'service_interface', 'action'), name='consumer_once', nulls_distinct=False, violation_error_message='Another consumer takes exactly these messages.'),
        ),
        migrations.AddConstraint(
            model_name='consumer',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'in_process'), ('url', ''), models.Q(('path', ''), _negated=True)), models.Q(('kind', 'http'), ('path', ''), models.Q(('url', ''), _negated=True)), models.Q(('kind', 'pull'), ('path', ''), ('url', '')), _connector='OR'), name='consumer_place_by_kind', violation_error_message='An in-process consumer has a dotted path, an HTTP consumer an address, a pull consumer neither.'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('due__isnull', False)), fields=['due'], name='delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state__in', ['blocked', 'parked', 'in_doubt'])), fields=['state', 'id'], name='delivery_waiting'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('consumer', 'message'), name='delivery_once'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['processing', 'failed']), _negated=True), ('due__isnull', False), _connector='OR'), name='delivery_due_while_open'),
        ),
        migrations.RunPython(schedule_pruning, unschedule_pruning),
    ]
