"""Where tuples wait to be worked on: the inbox of a task, fed by channels that each have a bound."""
