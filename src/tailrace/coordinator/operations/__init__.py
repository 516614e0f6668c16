"""Changes that all workers carry out together, one at a time, each completed or undone by the coordinator."""
