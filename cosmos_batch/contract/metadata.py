"""What a person writes beside a file: the names are those that users of VAMS know, and one of ours."""

PROMPT = "COSMOS_REASON_PROMPT"
PIPELINE = "COSMOS_PIPELINE"

# `<key>.metadata.json`, a JSON object, carries what is too long for S3's 2 KB of metadata.
SIDECAR_SUFFIX = ".metadata.json"
