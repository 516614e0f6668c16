"""State kept per key. In memory in this release: a worker that dies takes the state of its keys with it."""
