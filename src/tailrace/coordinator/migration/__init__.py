"""What decides that tasks or key groups should move, and where to: by measurements, costs and other queries."""
