"""Answers the requests that extensions may send to the host: memory and settings, kept in SQLite.

In reading order:

    host_api          answers the requests of extensions, with the modules below
    memory            stores records with a time and tags; finds them by text, tag and time
    text_index        a full-text index of those records
    stored_settings   stores settings of extensions, and notifies subscribers of changes
    external_changes  detects settings that another host changed in the same store
    store_quota       counts the bytes that each extension stores, and enforces its limit
    store             one SQLite file, and the thread that reads and writes it
"""
