"""The outbox, which Django does not create."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from jdbcstore.plugins.django.models import OUTBOX


class Migration(migrations.Migration):  # type: ignore[misc]
    """Records the model."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("jdbcstore", "0001_initial")]
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="OutboxMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("destination", models.CharField(max_length=250)),
                ("body", models.TextField(null=True)),
                ("body_bytes", models.BinaryField(null=True)),
                ("body_type", models.CharField(max_length=250, null=True)),
                ("properties", models.JSONField(null=True)),
                ("priority", models.BigIntegerField(null=True)),
                ("persistent", models.BigIntegerField(null=True)),
                ("delay", models.BigIntegerField(null=True)),
                ("expires", models.BigIntegerField(null=True)),
                ("correlation_id", models.CharField(max_length=250, null=True)),
                ("reply_to", models.CharField(max_length=250, null=True)),
                ("jms_type", models.CharField(max_length=250, null=True)),
                ("group_id", models.CharField(max_length=250, null=True)),
                ("send_id", models.CharField(max_length=250, null=True)),
            ],
            options={"db_table": OUTBOX, "managed": False},
        ),
    ]
