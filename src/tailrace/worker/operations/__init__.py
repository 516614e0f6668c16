"""What a worker does for operations that all workers carry out together: tasks and key groups move, policies change."""
