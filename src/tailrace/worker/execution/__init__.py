"""How user code runs: tasks and their operators, threads, turns, what follows from finished work."""
