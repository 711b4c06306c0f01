"""Tables of the paper: what each shows, the work behind it, and its lines."""

from simi_mailbox.experiments.tables.base import Line, Selection, Table, TableResult
from simi_mailbox.experiments.tables.registry import get, names, register

__all__ = ["Line", "Selection", "Table", "TableResult", "get", "names", "register"]
