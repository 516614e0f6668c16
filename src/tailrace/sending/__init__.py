"""Where tuples wait to be sent and in which order they go: outboxes, and the policy that picks the next one."""
