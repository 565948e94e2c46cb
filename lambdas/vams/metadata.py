"""The metadata of the assets and files of a run, in the shape of VAMS 2.5 or grouped as in 2.6."""

from typing import Any

from lambdas.vams.requests import inner

GROUPED = 2  # the schemaVersion of metadata that is grouped by asset and file; 1 has the shape of VAMS 2.5


class RunMetadata:
    """The metadata that users gave to assets and files. VAMS 2.5 sends one set of it for all files of a run."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._is_grouped = document.get("schemaVersion") == GROUPED
        self._of_all = inner(inner(document, "metadata") or document, "VAMS")
        self._records: dict[tuple[object, object, str], dict[str, Any]] = {}
        for asset in _objects(document.get("assets")):
            for record in _objects(asset.get("files")):
                owner = (asset.get("databaseId"), asset.get("assetId"), relative_path(record.get("fileKey")))
                self._records.setdefault(owner, inner(record, "metadata"))

    def of_file(self, database: str, asset: str, path: str) -> dict[str, Any]:
        """Return the metadata of a file itself, and never that of its asset, whose record has the key `/`."""
        if not self._is_grouped:
            return inner(self._of_all, "fileMetadata")
        return self._records.get((database, asset, path), {}) if path else {}

    def of_asset(self, database: str, asset: str) -> dict[str, Any]:
        """Return the metadata of an asset, which generators read: a mode that starts from text has no file."""
        if not self._is_grouped:
            return inner(self._of_all, "assetMetadata")
        return self._records.get((database, asset, ""), {})


def relative_path(value: object) -> str:
    """Return a path within an asset without the slashes around it; "" where there is none."""
    return value.strip("/") if isinstance(value, str) else ""


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
