"""The long versions of the fault suite: minutes, bounded, run by `make soak`."""
