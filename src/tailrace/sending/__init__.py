"""Where tuples wait to be sent and in which order they go: outboxes, and the gate that picks the next one."""
