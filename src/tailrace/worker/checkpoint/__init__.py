"""A worker's part in checkpoints: cutting its tasks at once, writing what they are, and going back to a cut.

cutter        when each task is cut, and what of it is kept to go back
part          what a worker writes for an epoch, as plain data
restore       a task that goes on from a cut: from memory, or from the objects of a store
transactions  what sinks have prepared, and when it is published
"""
