"""What extensions say about themselves on disk: one file a format, all of them pure.

`format` is the shape each of them fills in; `gate` judges what a manifest requires.
Finding the files is `exthost.discovery`'s work, which hands their bytes in here.
"""
