"""Store entries anew: ``python -m tests.golden.regenerate ENTRY …``.

An entry is named by its beginning: ``simi-mailbox`` is all that belong to the default method, and
``all`` is everything. Without a name, the entries are listed.
"""

import json
import sys

from tests.golden.entries import ENTRIES, computed
from tests.golden.test_golden import GOLDEN, STORED


def main(*wanted):
    chosen = [
        name for name in ENTRIES if "all" in wanted or any(name.startswith(w) for w in wanted)
    ]
    if not chosen:
        sys.exit("name the entries to store anew, by their beginnings:\n" + "\n".join(ENTRIES))
    stored = {name: GOLDEN[name] for name in GOLDEN if name in ENTRIES}
    for name in chosen:
        stored[name] = computed(name)
        print("stored", name, flush=True)
    text = ",\n".join(f"{json.dumps(n)}: {json.dumps(stored[n])}" for n in sorted(stored))
    STORED.write_text("{\n" + text + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
