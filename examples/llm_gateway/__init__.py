"""An LLM gateway: tenants share a model by the tokens they use."""
