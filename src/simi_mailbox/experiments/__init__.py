"""The paper's experiments: grids of runs, a store of their results, tables of the store."""

from simi_mailbox.experiments.store import ResultStore, row_key

__all__ = ["ResultStore", "row_key"]
