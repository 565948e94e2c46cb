"""Put the number of things into the words of a message."""


def counted(number: int, noun: str) -> str:
    """Return a number with what is counted; the plural of `noun` ends in "s".

    >>> counted(1, "file"), counted(1204, "empty file")
    ('1 file', '1,204 empty files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
