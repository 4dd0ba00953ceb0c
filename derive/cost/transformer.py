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

_MLA = """
    X[b_seq, T, D] . W_dq[D, r_q] -> LatentQ[b_seq, T, r_q]
    norm(LatentQ) -> NormQ
    NormQ . W_q[r_q, K, H_N] -> Query[b_seq, T, K, H_N]
    NormQ . W_qr[r_q, K, H_R] -> QueryR[b_seq, T, K, H_R]
    X . W_dkv[D, r_kv] -> Latent[b_seq, T, r_kv]
    norm(Latent) -> Norm
    X . W_kr[D, H_R] -> KeyR[b_seq, T, H_R]
    Norm . W_k[r_kv, K, H_N] -> Key[b_seq, T, K, H_N]
    Norm . W_v[r_kv, K, H_V] -> Val[b_seq, T, K, H_V]
    Query -> Q[b_seq, T, K, H_N]
    QueryR -> Q_R[b_seq, T, K, H_R]
    Key -> AllKey[b_seq, U, K, H_N]
    KeyR -> AllKeyR[b_seq, U, H_R]
    Val -> AllVal[b_seq, U, K, H_V]
    Q . AllKey -> ScoreN[b_seq, K, T, U] (causal)
    Q_R . AllKeyR -> ScoreR[b_seq, K, T, U] (causal)
    ScoreN + ScoreR -> Score (fused)
    softmax(Score) -> Share (fused)
    Share . AllVal -> O[b_seq, T, K, H_V] (causal)
    O -> Heads[b_seq, T, K, H_V]
    Heads . W_o[K, H_V, D] -> Att[b_seq, T, D]
"""
MLA = block(_MLA)
"""Attention through a latent (MLA): K heads, whose queries, and whose keys and values, come from a
narrow tensor each, and one key with rotary position for all heads [DeepSeek-V2]."""

_EXPERTS = """
    Y[b_seq, T, D] . W_r[D, E] -> Router[b_seq, T, E]
    softmax(Router) -> Prob (fp32)
    Y => Rows[E, J, D]
    Prob => Scale[E, J] (fp32)
    Rows . W_gate[E, D, F_E] -> Gate[E, J, F_E]
    Rows . W_in[E, D, F_E] -> Up[E, J, F_E]
    silu(Gate) * Up -> Hid
    Hid * Scale -> Act
    Act . W_out[E, F_E, D] -> Back[E, J, D]
    Back => {result}[b_seq, T, D]
"""
_SHARED = """
    Y . W_shared_gate[D, n_S, F_E] -> SharedGate[b_seq, T, n_S, F_E]
    Y . W_shared_in[D, n_S, F_E] -> SharedUp[b_seq, T, n_S, F_E]
    silu(SharedGate) * SharedUp -> SharedHid
    SharedHid . W_shared_out[n_S, F_E, D] -> Shared[b_seq, T, D]
    Routed + Shared -> Ffn
"""
_FEED_FORWARD = {
    "plain": """
    Y[b_seq, T, D] . W_in[D, F] -> Up[b_seq, T, F]
    gelu(Up) -> Hid
    Hid . W_out[F, D] -> Ffn[b_seq, T, D]
    """,
    "gated": """
    Y[b_seq, T, D] . W_gate[D, F] -> Gate[b_seq, T, F]
    Y . W_in[D, F] -> Up[b_seq, T, F]
    silu(Gate) * Up -> Hid
    Hid . W_out[F, D] -> Ffn[b_seq, T, D]
    """,
    "experts": _EXPERTS.format(result="Ffn"),
    "shared": _EXPERTS.format(result="Routed") + _SHARED,
}

LAYER_OF = {
    (kind, width): block(
        f"""
        norm(In[b_seq, T, D]) -> X
        {attention}
        In + Att -> Mid
        norm(Mid) -> Y
        {feed_forward}
        Mid + Ffn -> Out
        """
    )
    for kind, attention in {"gqa": _ATTENTION, "mla": _MLA}.items()
    for width, feed_forward in _FEED_FORWARD.items()
}
"""A whole layer, by its attention, gqa or mla, and its feed-forward: plain with two matrices, gated
with three, of experts, or of experts and those that are shared. A router's scores, softmax over all
experts, scale what the experts of a token hold, so that what comes back is added up. The top n_k
of them take the token; which those are is data."""

LAYER = {2: LAYER_OF["gqa", "plain"], 3: LAYER_OF["gqa", "gated"]}
"""A dense layer, by its feed-forward matrices: three where gated (Llama), else two."""

EMBEDDING = block("Ids[b_seq, T, V] @ W_embed[V, D] -> In[b_seq, T, D]")
HEAD = block("Top[b_seq, T, D] . W_head[D, V] -> Logits[b_seq, T, V]")

EXPERTS = block(
    """
    In[B, D] => Rows[E, J, D]
    Rows . W_gate[E, D, F_E] * W_in[E, D, F_E] -> Hid[E, J, F_E]
    Hid . W_out[E, F_E, D] -> Back[E, J, D]
    Back => Out[B, D]
    """
)
"""The experts of a layer, J rows to each of E; which rows they take is the router's to say."""

SHARED = block(
    """
    In[B, D] . W_gate[D, n_S, F_E] * W_in[D, n_S, F_E] -> Hid[B, n_S, F_E]
    Hid . W_out[n_S, F_E, D] -> Out[B, D]
    """
)
"""The experts of a layer that every token goes to."""

BLOCKS = {
    "mlp": MLP,
    "attention_core": ATTENTION_CORE,
    "attention": ATTENTION,
    "mla": MLA,
    "plain_layer": LAYER[2],
    "layer": LAYER[3],
    "expert_layer": LAYER_OF["gqa", "experts"],
    "shared_expert_layer": LAYER_OF["gqa", "shared"],
    "mla_layer": LAYER_OF["mla", "gated"],
    "mla_expert_layer": LAYER_OF["mla", "shared"],
    "embedding": EMBEDDING,
    "head": HEAD,
    "experts": EXPERTS,
    "shared_experts": SHARED,
}
