"""The model store: loads weights from EFS, else from the S3 backup, else from Hugging Face; and keeps compile caches.

Importing this package is cheap: `huggingface_hub` is loaded when a download starts, not before.
"""

from cosmos_batch.store.compile_caches import CompileCaches
from cosmos_batch.store.copies import StoredModel
from cosmos_batch.store.model_store import ModelStore

__all__ = ["CompileCaches", "ModelStore", "StoredModel"]
