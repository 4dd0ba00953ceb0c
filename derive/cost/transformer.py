"""The blocks of a transformer, each declared once and without a mesh.

MLP is the layer of the first strategies, two matmuls with B the batch in tokens: the model of the
Scaling Book's training chapter [SB5]. In the other blocks T are the tokens of a sequence whose
queries are computed, U those whose keys and values they meet; the gains of norms, rotations of
queries and keys and the scale of the scores are left out.
"""

from __future__ import annotations

from derive.cost.reader import block

MLP = block("In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]")

ATTENTION_CORE = block(
    """
    Q[b_seq, T, K, G, H] . Key[b_seq, U, K, H] -> Score[b_seq, K, G, T, U] (causal)
    softmax(Score) -> Share (fused)
    Share . Val[b_seq, U, K, H] -> O[b_seq, T, K, G, H] (causal)
    """
)

_ATTENTION = """
    X[b_seq, T, D] . W_q[D, K, G, H] -> Query[b_seq, T, K, G, H]
    X . W_k[D, K, H] -> Key[b_seq, T, K, H]
    X . W_v[D, K, H] -> Val[b_seq, T, K, H]
    Query -> Q[b_seq, T, K, G, H]
    Key -> AllKey[b_seq, U, K, H]
    Val -> AllVal[b_seq, U, K, H]
    Q . AllKey -> Score[b_seq, K, G, T, U] (causal)
    softmax(Score) -> Share (fused)
    Share . AllVal -> O[b_seq, T, K, G, H] (causal)
    O -> Heads[b_seq, T, K, G, H]
    Heads . W_o[K, G, H, D] -> Att[b_seq, T, D]
"""
ATTENTION = block(_ATTENTION)
"""Grouped-query attention: K key and value heads, G query heads to each of them."""

_FEED_FORWARD = {
    2: """
    Y[b_seq, T, D] . W_in[D, F] -> Up[b_seq, T, F]
    gelu(Up) -> Hid
    Hid . W_out[F, D] -> Ffn[b_seq, T, D]
    """,
    3: """
    Y[b_seq, T, D] . W_gate[D, F] -> Gate[b_seq, T, F]
    Y . W_in[D, F] -> Up[b_seq, T, F]
    silu(Gate) * Up -> Hid
    Hid . W_out[F, D] -> Ffn[b_seq, T, D]
    """,
}

LAYER = {
    matrices: block(
        f"""
        norm(In[b_seq, T, D]) -> X
        {_ATTENTION}
        In + Att -> Mid
        norm(Mid) -> Y
        {feed_forward}
        Mid + Ffn -> Out
        """
    )
    for matrices, feed_forward in _FEED_FORWARD.items()
}
"""A whole layer, by its feed-forward matrices: three where gated (Llama), else two."""

EMBEDDING = block("Ids[b_seq, T, V] @ W_embed[V, D] -> In[b_seq, T, D]")
HEAD = block("Top[b_seq, T, D] . W_head[D, V] -> Logits[b_seq, T, V]")

EXPERTS = block(
    """
    In[B, D] => Rows[E, J, D]
    Rows . W_gate[E, D, F] * W_in[E, D, F] -> Hid[E, J, F]
    Hid . W_out[E, F, D] -> Back[E, J, D]
    Back => Out[B, D]
    """
)
"""The experts of a layer, J rows to each of E; which rows they take is the router's to say."""

BLOCKS = {
    "mlp": MLP,
    "attention_core": ATTENTION_CORE,
    "attention": ATTENTION,
    "plain_layer": LAYER[2],
    "layer": LAYER[3],
    "embedding": EMBEDDING,
    "head": HEAD,
    "experts": EXPERTS,
}
