"""Finding extensions on disk: one walk for every format, then one set of filters.

`search.discover` is the way in. `walk` and `files` touch the disk; `filters` and `report` are
pure. Nothing here starts a process or knows a dialect.
"""
