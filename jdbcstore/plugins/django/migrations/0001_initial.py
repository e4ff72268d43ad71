"""The table of tasks."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]
    """Creates the table."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                ("id", models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ("task_path", models.TextField()),
                ("backend", models.CharField(max_length=100)),
                ("queue_name", models.CharField(max_length=200)),
                ("priority", models.SmallIntegerField()),
                ("run_after", models.DateTimeField(null=True)),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("status", models.CharField(max_length=10)),
                ("enqueued_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("last_attempted_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("attempts", models.IntegerField(default=0)),
                ("worker_ids", models.JSONField(default=list)),
                ("return_value", models.JSONField(null=True)),
                ("errors", models.JSONField(default=list)),
            ],
            options={
                "db_table": "jdbcstore_django_task",
                "indexes": [models.Index(fields=["finished_at"], name="jdbcstore_django_finished")],
            },
        ),
    ]
