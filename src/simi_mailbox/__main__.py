"""``python -m simi_mailbox`` is the command ``simi-mailbox``."""

from simi_mailbox.cli import main

if __name__ == "__main__":
    main()
