"""The application as Django installs it."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

from django.apps import AppConfig


class WaystationConfig(AppConfig):
    """Jobs in the database of a site, on their way to a queue."""

    name = "waystation.integrations.django"
    label = "waystation"
    default_auto_field = "django.db.models.BigAutoField"
