"""What the coordinator decides by measurement while a query runs: measurements in, choices and weights out."""
