"""The scenarios of ``tailrace simulate``, one file per paper or question; ``catalogue`` lists them by name."""
