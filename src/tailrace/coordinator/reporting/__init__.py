"""What a query shows of itself: progress, explanations, events, and what keeps it from going on or ending."""
