"""The arms of a comparison, one kind per file: Tailrace on a host, Bytewax, the bare loop. A panel steers each."""
