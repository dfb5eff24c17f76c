"""The table of the outbox."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

from django.db import migrations, models


class Migration(migrations.Migration):
    """Make the table."""

    initial = True
    operations = [  # noqa: RUF012
        migrations.CreateModel(
            name="Outbox",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=64, unique=True)),
                ("queue", models.CharField(max_length=255)),
                ("name", models.TextField()),
                ("data", models.TextField()),
                ("options", models.TextField()),
                ("terms", models.TextField()),
            ],
            options={"db_table": "waystation_outbox"},
        ),
    ]
