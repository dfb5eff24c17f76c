"""The table of the outbox."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

from django.db import models


class Outbox(models.Model):
    """A job that is added to its queue once its transaction is committed."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=64, unique=True)
    queue = models.CharField(max_length=255)
    name = models.TextField()
    data = models.TextField()
    options = models.TextField()
    terms = models.TextField()

    class Meta:
        """The table's name."""

        db_table = "waystation_outbox"
