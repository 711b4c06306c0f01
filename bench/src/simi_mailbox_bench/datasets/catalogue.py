"""The datasets this package knows, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simi_mailbox.plain_text import unknown


@dataclass(frozen=True)
class Entry:
    """What is known about a dataset before reading it.

    Attributes
    ----------
    name : str
        Name as written in tables; look-up ignores case.
    nodes, entries, classes, features : int
        Counts; ``entries`` counts both directions of every edge, self-loops (where the source
        has them) once.
    loader : tuple of str
        PyG class and its ``name`` argument; empty where PyG is not used.
    splits : str
        Published splits: "public", "official", or "" for none.
    folds : bool
        Whether the file ships the five 3-fold splits.
    homophily : float or None
        Share of edges joining one class, measured on the checked file.
    sha256 : str or None
        Checksum of the file in the layout of docs/data.md; None where there is none to compare.
    origin : {"pyg", "ogb", "scikit-learn", "file"}
        What provides the data where no file is found: PyG's loader, OGB's archive (read by this
        package), scikit-learn's bundled digits, which are always here, or nothing.
    self_loops : int
        How many of ``entries`` are self-loops, which `Graph` drops.
    scaling : {"", "rank", "standard"}
        What is done to the columns of features on loading: ranks in 0..1, or mean zero and
        variance one.
    file : str
        Dataset whose file this is read from, if not its own: the same graph under another loss.
    """

    name: str
    nodes: int
    entries: int
    classes: int
    features: int
    loader: tuple[str, ...] = ()
    splits: str = ""
    folds: bool = False
    homophily: float | None = None
    sha256: str | None = None
    origin: Literal["pyg", "ogb", "scikit-learn", "file"] = "pyg"
    self_loops: int = 0
    scaling: Literal["", "rank", "standard"] = ""
    file: str = ""

    @property
    def edges(self) -> int:
        """Number of undirected edges, self-loops left out."""
        return (self.entries - self.self_loops) // 2

    @property
    def file_name(self) -> str:
        """Name of the file in the data folder."""
        return f"{self.file or self.name}.npz"


# Counts and checksums of the files with a checksum were read from those files; the others
# are the counts that PyG's and OGB's documentation state.
_TABLE = (
    Entry(
        "Cora", 2708, 10556, 7, 1433, ("Planetoid", "Cora"), "public", True, 0.810,
        "7822c66eaa4e71e2ab85c2365c3b9db750cb361106fc0f71e52dedf51da5849a",
    ),
    Entry(
        "Citeseer", 3327, 9104, 6, 3703, ("Planetoid", "CiteSeer"), "public", True,
        0.736, "625bfe798c9da6eec30106db1aa5500b5263fc89e677e173314514013e708b78",
    ),
    Entry(
        "Pubmed", 19717, 88648, 3, 500, ("Planetoid", "PubMed"), "public", True, 0.802,
        "c53c2403ffc8d2f399b88fce3a6137f3bc7eb1de7873553fe4223c468c7df5e7",
    ),
    Entry("CoraFull", 19793, 126842, 70, 8710, ("CoraFull",)),
    Entry(
        "Computers", 13752, 491722, 10, 767, ("Amazon", "Computers"), "", True, 0.777,
        "ae0c1778647253777169bd5bf855e5e19e5abe6899d1a6e955f3725e12b59aee",
    ),
    Entry(
        "Photo", 7650, 238162, 8, 745, ("Amazon", "Photo"), "", True, 0.827,
        "179a39d62fc5470ad5e7cb16df6ab2377d3ac83bdbf26a7b81a277e81dd3dcdd",
    ),
    Entry(
        "CS", 18333, 163788, 15, 6805, ("Coauthor", "CS"), "", True, 0.808,
        "0e92c5dcf746635071e847ea664c90d38b88827cf6fa7d8aa33f8f7499ac85f5",
    ),
    Entry(
        "Physics", 34493, 495924, 5, 8415, ("Coauthor", "Physics"), "", True, 0.931,
        "3349fd3dbaaa4272b0ff68b4308a7610089b9b75a753ffe255619f97d86b27ab",
    ),
    Entry(
        "CoraML", 2995, 16316, 7, 2879, ("CitationFull", "Cora_ML"), "", False, 0.789,
        "7928a96bbe93fd2ed99030f19b9067065dbabcc7975599faa8751ed4b777c631",
    ),
    Entry("Arxiv", 169343, 2315598, 40, 128, (), "official", origin="ogb"),
    Entry("Reddit2", 232965, 23213838, 41, 602, ("Reddit2",), "official"),
    Entry(
        "Chameleon", 2277, 62792, 5, 2325, ("WikipediaNetwork", "chameleon"),
        "official", False, 0.230,
        "6379a233bee4bc1c18b5d45c15f474b467a761b0e3d66f8c1bb534f5b74973f2", self_loops=50,
    ),
    Entry(
        "Squirrel", 5201, 396846, 5, 2089, ("WikipediaNetwork", "squirrel"),
        "official", False, 0.222,
        "fcbb0ec23cb1922455e6f5511f8e0d54dd3d601f9b9849a5e61443d57ba15488", self_loops=140,
    ),
    Entry(
        "Actor", 7600, 53411, 5, 932, ("Actor",), "official", True, 0.217,
        "5e738acdf1385180037a074871913fd8c1fbe61b96e2ca5073d052842573b67d", self_loops=93,
    ),
    Entry(
        "Texas", 183, 574, 5, 1703, ("WebKB", "Texas"), "official", False, 0.061,
        "bf640ce0fffbeacef6d4013c5c082ff85fb79b0eb758b00d390c29aff3a170bf", self_loops=16,
    ),
    Entry(
        "Wisconsin", 251, 916, 5, 1703, ("WebKB", "Wisconsin"), "official", False, 0.178,
        "2b6b8cffacc2aa7b67c16d6848d95855f006408b6b52597e3eafb2b285a6e50c", self_loops=16,
    ),
    Entry(
        "Cornell", 183, 557, 5, 1703, ("WebKB", "Cornell"), "official", False, 0.123,
        "97c0b9c4b62048140e1d72624ae3bd6c4873a5475983c5ba6642b50a8fb1b6f1", self_loops=3,
    ),
    Entry(
        "Roman-empire", 22662, 65854, 18, 300,
        ("HeterophilousGraphDataset", "Roman-empire"), "official",
    ),
    Entry(
        "Amazon-ratings", 24492, 186100, 5, 300,
        ("HeterophilousGraphDataset", "Amazon-ratings"), "official",
    ),
    Entry(
        "Minesweeper", 10000, 78804, 2, 7,
        ("HeterophilousGraphDataset", "Minesweeper"), "official", False, 0.683,
        "78a78a07c6e98cacabbbdb3722dcc13c485ac6d567667b100cb65dc3b259fdf0",
    ),
    Entry(
        "Tolokers", 11758, 1038000, 2, 10,
        ("HeterophilousGraphDataset", "Tolokers"), "official", False, 0.595,
        "dfc543bcdeff2f8efa0985281257981150a5ff929968e0b9c6c85324ddf8adf5",
    ),
    Entry(
        "Questions", 48921, 307080, 2, 301,
        ("HeterophilousGraphDataset", "Questions"), "official",
    ),
    Entry(
        "Tolokers-weighted", 11758, 1038000, 2, 10, (), "official", False, 0.595,
        "dfc543bcdeff2f8efa0985281257981150a5ff929968e0b9c6c85324ddf8adf5",
        origin="file", file="Tolokers",
    ),
    Entry(
        "FDCompCN", 5317, 7268, 2, 57, (), "public", False, 0.855,
        "eb7c4b03eac9a3a98c12fcad30de47111726e2a6f68bf625d2a3578d83f5311d",
        origin="file", scaling="rank",
    ),
    Entry(
        "FDCompCN-weighted", 5317, 7268, 2, 57, (), "public", False, 0.855,
        "eb7c4b03eac9a3a98c12fcad30de47111726e2a6f68bf625d2a3578d83f5311d",
        origin="file", scaling="rank", file="FDCompCN",
    ),
    Entry(
        "RedditBans", 10984, 157032, 2, 64, (), "", False, 0.947,
        "dce97298a385950d5ede070e05846955586513b7953f89b03158e993055f142c",
        origin="file", scaling="standard",
    ),
    Entry(
        "German", 1000, 43484, 2, 27, (), "public", False, 0.587,
        "696551f58bdb490934560b0b65dde49098ce8cd33e927bfa843f4270e678b761",
        origin="file", scaling="standard",
    ),
    Entry(
        "Digits", 1797, 19858, 10, 64, (), "official", False, 0.961,
        origin="scikit-learn",
    ),
    Entry(
        "TwitchDE", 9498, 306276, 2, 3170, (), "", False, 0.632,
        "bb9719fe7cba3675ba3e77353f2dd7e90f7f1c44183cae469a8340fdc32ff617", origin="file",
    ),
    Entry(
        "TwitchENGB", 7126, 70648, 2, 3170, (), "", False, 0.556,
        "7dcedf80acec8889dd2cbeb42c3fc359f7c610c4ad535251dbf27737cb3a2eb7", origin="file",
    ),
    Entry(
        "TwitchES", 4648, 118764, 2, 3170, (), "", False, 0.580,
        "2eb1b3bdb7f11c2b9fd89470628cdd784a23985a17737e76c20a9d773b486cc1", origin="file",
    ),
    Entry(
        "TwitchFR", 6549, 225332, 2, 3170, (), "", False, 0.559,
        "e18a4ea3964b70463a477c49447176f09e86e7ffdfeb7b77cd1974300cffb1df", origin="file",
    ),
    Entry(
        "TwitchPTBR", 1912, 62598, 2, 3170, (), "", False, 0.571,
        "57a218bfcf48e810c0ecc5b5bd1732901679435013c4473d9396bace5433243b", origin="file",
    ),
    Entry(
        "TwitchRU", 4385, 74608, 2, 3170, (), "", False, 0.618,
        "db17634db721c919da6606253c86ff2186747101ee6b6aadda2a901555c90961", origin="file",
    ),
    Entry(
        "TwitchZHTW", 2772, 126924, 2, 3170, (), "", False, 0.533,
        "61b991b7c6f7057ba69423f833903997f102c893c4205cc6d2962bdb2b5f37c0", origin="file",
    ),
)  # fmt: skip

ENTRIES = {entry.name: entry for entry in _TABLE}
_ALIASES = {"reddit": "Reddit2", "ogbn-arxiv": "Arxiv", "cora_ml": "CoraML", "cora-ml": "CoraML"}


def find(name: str) -> Entry:
    """Entry of a dataset, whatever the case of ``name``; an unknown name lists the choices."""
    if not isinstance(name, str):
        raise TypeError(f"a dataset name is a string, got {type(name).__name__}")
    by_lower = {known.lower(): known for known in ENTRIES} | _ALIASES
    known = by_lower.get(name.strip().lower())
    if known is not None:
        return ENTRIES[known]
    raise ValueError(unknown("dataset", name, ENTRIES, _ALIASES))


def names() -> list[str]:
    """Names of all datasets that `load` knows."""
    return list(ENTRIES)
