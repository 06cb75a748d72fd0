"""The explorer: a store in a browser, served on this machine or as one static file.

`snapshot` reads the store, `export` makes pages, `server` answers them. The answers are those of `pbdist.query`.
"""
