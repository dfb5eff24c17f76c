"""The pages that people see: the waiting page and the operator's page."""
