"""The files of the page, which `scripts/build_console.py` has built."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}
"""By path of a URL, the name of a file and its content type."""
