"""Handlers of the routes, by subject."""
