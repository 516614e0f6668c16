"""What Lever is compared with: ways to treat stragglers once a stage runs, each after its paper and in its own file."""
