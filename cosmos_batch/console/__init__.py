"""The console: a page in the browser that shows the documents of a folder beside their videos and images.

1. `scope` says which files of the opened folder may be read, and `locating` finds the media of a document among them.
2. `documents` reads a document of any kind, and `scanning` puts all of a folder into the index (`index`).
3. `details` collects all that the page shows of one document.
4. `pictures`, `transcoding` and `kept_files` make posters, frames and previews on demand.
5. `guard` keeps other users, sites and hosts away, `application` answers the page's requests, `server` runs it.
6. `export` writes the same page with its data as static files.

The page itself is in `page/`. `scripts/build_console.py` builds `static/`, which is committed, so that a user needs no
Node.
"""
