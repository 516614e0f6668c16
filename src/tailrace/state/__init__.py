"""State kept per key: what a backend must do, the one in memory, and the format in which a task's state is written.

backend   what keyed operators ask of whatever keeps their state
memory    a dict per operator, with before-images by cut while cuts are made
keyed     the state of one key, as user code sees it
snapshot  a task's state as versioned plain data
"""
