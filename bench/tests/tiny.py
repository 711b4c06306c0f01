"""Catalogue entry of an invented dataset of six nodes."""

from simi_mailbox_bench.datasets.catalogue import Entry

TINY = Entry("Tiny", 6, 9, 2, 3, ("WebKB", "Tiny"), "official", self_loops=1)
