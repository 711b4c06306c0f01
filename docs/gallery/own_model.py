# %% [markdown]
# # Your own PyG model, on a real graph
#
# Cora: 2,708 papers, joined by citations, in seven fields. (Where Cora is not at hand, the
# handwritten digits that come with scikit-learn stand in for it, and nothing is downloaded.)

# %%
import torch
from matplotlib.figure import Figure
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv

from simi_mailbox import analysis, metrics, plots, pyg
from simi_mailbox_bench import datasets

name = "Cora" if "Cora" in datasets.available() else "Digits"
graph = datasets.load(name)
split = datasets.make_split(graph, "public" if name == "Cora" else "official")
x = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x
whole = Data(x=torch.tensor(x), edge_index=graph.graph.edge_index(), y=torch.tensor(graph.y))
for part, mask in zip(("train", "val", "test"), split.masks(graph.num_nodes), strict=True):
    whole[f"{part}_mask"] = torch.tensor(mask)
print(whole)

# %% [markdown]
# A model as anyone would write it, here with attention:


# %%
class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first = GATv2Conv(features, 8, heads=4, dropout=0.5)
        self.second = GATv2Conv(32, classes, dropout=0.5)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(x, 0.5, self.training)
        return self.second(self.first(x, edge_index).relu(), edge_index)


torch.manual_seed(0)
model = Net(whole.num_features, graph.num_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(60):
    optimizer.zero_grad()
    out = model(whole.x, whole.edge_index)
    train = whole.train_mask
    torch.nn.functional.cross_entropy(out[train], whole.y[train]).backward()
    optimizer.step()

# %% [markdown]
# One line calibrates it on the validation nodes, and the result is called like the model:

# %%
calibrated = pyg.calibrate(model, whole, mask=whole.val_mask)
model.eval()
with torch.no_grad():
    before = model(whole.x, whole.edge_index).softmax(dim=1)
    after = calibrated(whole.x, whole.edge_index).exp()

y = whole.y
for word, probs in (("before", before), ("after", after)):
    p, labels = probs[whole.test_mask], y[whole.test_mask]
    floor = metrics.noise_floor(p)
    print(
        f"{word:7} accuracy {metrics.accuracy(p, labels):.1%}  ECE {metrics.ece(p, labels):.1%} "
        f"(chance alone: {floor.mean:.1%} ± {floor.std:.1%})  NLL {metrics.nll(p, labels):.3f}"
    )

# %%
figure = Figure(figsize=(9, 5.4), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
test = whole.test_mask.nonzero().flatten()
for ax, (word, probs) in zip(axes, (("before", before), ("after", after)), strict=True):
    curve = analysis.reliability_curve(probs, y, nodes=test)
    plots.reliability_diagram(curve, label=word).plot(ax)

# %% [markdown]
# Saving, mini-batches, graphs too large for one pass: [in a PyG script](../../pyg.md).
