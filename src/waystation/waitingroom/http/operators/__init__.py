"""Who may operate, and how they show who they are."""
