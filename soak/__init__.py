"""Long-running versions of the fault tests, which take minutes: `make soak` runs them."""
