"""Did it arrive: the ledger of open roots at their source, and the guard that drops duplicates."""
