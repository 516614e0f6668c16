"""What is measured: histograms of constant size, counters of tasks, and what they add up to."""
