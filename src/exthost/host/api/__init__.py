"""What extensions may request from the host, and where it is kept.

In reading order:

    host_api          connects the requests of a dialect with what serves them
    memory            records with a time and tags, searched by words, tags and time
    text_index        which blocks of records contain some words
    stored_settings   settings of extensions, and who is notified of changes
    external_changes  finds settings that another host changed in the same store
    store_quota       how much of the store each extension uses, and its limit
    store             one SQLite file and the thread that uses it
"""
