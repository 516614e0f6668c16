"""State kept per key: what a backend must do, those in memory and on disk, and the format in which state is written.

backend   what keyed operators ask of whatever keeps their state
memory    a dict per operator, with before-images by cut while cuts are made
disk      the same as a cache in front of what does not fit into memory
scratch   bytes by name in a file that goes with its worker
keyed     the state of one key, as user code sees it
declared  value, list and map states that operators declare
named     what those have in common: names, the key at hand, what expires
kinds     how values of a declared type are held
snapshot  a task's state as versioned plain data
"""
