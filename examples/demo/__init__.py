"""An agent is killed in the middle of a conversation; a second process goes on.

`make demo` runs it on SQLite in a temporary folder; `DEMO_URL=postgresql://…` or `mysql://…` on a
server. The first process (`first.py`) holds two turns and is killed with SIGKILL while a question
to the human is open. The second (`second.py`) prints, surface by surface, what came back, lets the
human answer, and finishes the turn. It checks what it says: the exit status is not zero when
something is missing.
"""
