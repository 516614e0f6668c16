"""When tasks and key groups move, which ones, and the steps of a move as the coordinator takes them."""
