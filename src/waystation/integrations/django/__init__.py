"""Django: jobs that are added after the commit, and an outbox in the database.

Add `waystation.integrations.django` to `INSTALLED_APPS`; `WAYSTATION_URL` in the settings says
where the store is, and `WAYSTATION_PAYLOADS` whether data and results are encrypted.
"""
