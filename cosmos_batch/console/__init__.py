"""The console: a page in the browser that shows documents beside their videos and images, and steers runs.

1. A `collection` has documents: a `folder` of this machine, whose files `scope` allows and among which `locating` finds
   media; or a run, which `cosmos_batch.cli.console` reads.
2. `documents` reads a document of any kind, and `scanning` puts those of a collection into the `index`, which answers
   `queries`. A collection with its index is a `view`, and `console` opens views by name.
3. `details` collects all that the page shows of one document.
4. `pictures`, `transcoding` and `kept_files` make posters, frames and previews on demand.
5. `run_backend` is what the console asks of a deployment about its runs.
6. `guard` keeps other users, sites and hosts away, `view_endpoints`, `run_endpoints` and
   `new_run_endpoints` answer the page's requests, `application` puts them together, `server` runs it.
7. `static_export` writes the same page with its data as static files, `export_archives` as an archive.

The page itself is in `page/`. `scripts/build_console.py` builds `static/`, which is committed, so that a user needs no
Node.
"""
