"""The node's limited uplink: queues in front of it, turns taken in shared memory, the workers of a node."""
