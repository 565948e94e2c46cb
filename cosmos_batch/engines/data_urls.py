"""Files within a request."""

import base64


def data_url(kind: str, data: bytes) -> str:
    """Return a file as a data URL. `kind` is its media type, such as `image/png`."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
