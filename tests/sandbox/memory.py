"""Trials of memory that is not resident in a process: files, buffers, shared segments."""
