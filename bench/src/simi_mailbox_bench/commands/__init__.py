"""The commands that this package adds to `simi-mailbox`: one file each."""
