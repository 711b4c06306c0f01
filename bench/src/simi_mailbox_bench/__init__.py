"""The laboratory of `simi_mailbox`: data sets, backbones, experiments, and the tables made of them.

The library never imports this package. Its commands (`simi-mailbox bench`, `data`, `prior`) join
the library's by the entry-point group `simi_mailbox.commands`.
"""

__version__ = "0.1.0"
