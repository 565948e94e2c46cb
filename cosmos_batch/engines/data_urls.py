"""Files within a request."""

import base64

SENT_AS_H264 = (
    "The frames of a video were sent to the server as H.264 of high quality, which loses fine detail, above all of "
    "colors."
)


def data_url(kind: str, data: bytes) -> str:
    """Return a file as a data URL. `kind` is its media type, such as `image/png`."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
