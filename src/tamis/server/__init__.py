"""An HTTP server over named collections of rules: ``tamis serve DIR``.

`app.py` takes a request through its steps, `routes` has the operations by noun, `run.py` starts it
all. docs/reference/server.md describes the API.
"""
