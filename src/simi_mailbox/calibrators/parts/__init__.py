"""What calibrators are made of, and not calibrators themselves.

One file per method stands a folder above; here is what several of them share, or what one needs
beside its class: the training loop with its optimiser and losses (`training`, `flat_adam`,
`likelihood`), sums over neighbours (`neighbour_support`), confidences of the
predicted class (`top_label`), features (`feature_rows`, `prototypes`), and the networks of GATS
(`gats_attention`, `training_nodes`) and GETS (`gets_experts`). Methods import from here, never the
other way round.
"""
