"""Holds `sitecustomize`, which Python imports at start when this folder is on `PYTHONPATH`."""
