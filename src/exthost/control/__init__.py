"""The running host's local socket: how `exthost status` and its kin reach `exthost run`.

One socket per config, this user's alone. One line of JSON asks, one line answers.
"""
