"""The `cosmos-batch` command. A command's module is imported when it is used, so that `--help` is instant."""
