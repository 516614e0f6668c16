"""How tuples get from task to task: outlets, outgoing buffers, credits, acknowledgements, bounds, shared queues."""
