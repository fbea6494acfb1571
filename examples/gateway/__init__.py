"""A small FastAPI service over deerstore: one gateway, from the request to the row.

``python -m examples.gateway`` starts it on SQLite; ``--url`` takes PostgreSQL, MySQL or MariaDB.
It speaks the shapes of the public ``langgraph-sdk`` client. Read it in this order:

================ =================================================================
``agent.py``     the graph: a model that needs no key, two tools, a question
``worker.py``    carries out one run, from its pending row to the thread at rest
``bridge.py``    hands a run's stream to whoever listens, also to those who come late
``shapes.py``    what goes over the wire: requests in, rows and states out
``streaming.py`` what LangGraph streams, as the client's events
``routes.py``    who may do what
``app.py``       the service: its lifespan, the request's user, its errors
================ =================================================================
"""
