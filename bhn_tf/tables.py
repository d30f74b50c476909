"""Tables for the terminal."""

from collections.abc import Collection, Sequence


def text_table(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Returns rows of cells as lines of aligned columns.

    Args:
        rows: Cells, equally many in each row; a header is a row like the others.
        numbers: The columns to be aligned on the right, such as numbers.

    Example:
    >>> print(text_table([("name", "size"), ("a", "10"), ("b", "5")], numbers=[1]))
    name  size
    a       10
    b        5
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row):
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))
