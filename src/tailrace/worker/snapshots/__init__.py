"""A task as plain data and back: what it needs to go on anywhere, and what only a move takes along.

task_state  its state as a ``TaskSnapshot``: by key, of users' objects, of the deduplicator, of the source
remembered  what a deduplicator remembers of outputs, as columns by edge
transit     what a move takes along besides, as structs
queues      what waits in front of a task and behind it, and what it has counted
"""
