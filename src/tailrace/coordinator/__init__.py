"""The driver's side of a query: who has which slot, where tasks go, how far it is, and when it ends."""
