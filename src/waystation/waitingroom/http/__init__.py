"""The waiting room over HTTP: for visitors, for proxies and for operators."""
