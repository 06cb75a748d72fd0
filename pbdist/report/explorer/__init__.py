"""The explorer: a store in a browser, served or as one static file, with the answers of `pbdist.query`."""
