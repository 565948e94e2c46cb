"""What a demonstration needs without a licence, a GPU or a camera: a tiny random checkpoint and sample media."""
