"""Renders plans, drift, diagnostics and receipts as text and as JSON."""
