"""Sources and sinks: how values get into a topology and out of it."""
