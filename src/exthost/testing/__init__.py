"""What tests of a host need: an extension that misbehaves on request, and a pipe that does.

`peers` finds the row of each dialect, `hostile` is the program, `misdeeds` what it can do, `shim`
records a conversation and plays it back with a fault at any byte. `vectors` plays what a dialect
says and means, as data (`vector_notation`), without a process or with one (`scripted_child`). None
of it is imported by the host, and what runs as a child needs no site-packages but those that a
dialect itself needs.
"""
