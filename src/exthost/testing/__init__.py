"""What tests of a host need: an extension that misbehaves on request, and a pipe that does.

`peers` finds the row of each dialect, `hostile` is the program, `misdeeds` what it can do, `shim`
records a conversation and plays it back with a fault at any byte. None of it is imported by the
host, and all of it runs without site-packages, save what a dialect itself needs.
"""
