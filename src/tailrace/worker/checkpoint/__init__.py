"""A worker's part in checkpoints: cutting its tasks at once, writing what they are, and going back to a cut.

cutter        when each task is cut, and what of it is kept to go back
holding       brings everything to rest, for a cut with nothing in flight
writer        the thread that writes parts
merger        the thread that makes one object of several
restore       a task that goes on from a cut: from memory, by a shadow, or from the objects of a store
shadows       tasks of other workers that this one stands by for
transactions  what sinks have prepared, and when it is published
"""
