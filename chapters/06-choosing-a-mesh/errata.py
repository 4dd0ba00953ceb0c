"""What earlier printings of the chapter have wrong."""

from __future__ import annotations

from .common import chapter

ERRATA = (
    (
        "fsdp-same-bytes",
        "Data parallelism and FSDP",
        "FSDP moves the same bytes as data parallelism",
        "They are the same only if the gathered weights are kept for the backward pass, which "
        "gives back the memory that FSDP saves. The condition is the same either way.",
    ),
    (
        "tp-fp8-unchanged",
        "Tensor parallelism",
        "int8 or fp8 does not raise the tensor limit",
        "That is right for int8 on v5p and for fp8 on Ironwood. v5p has no faster fp8, so there "
        "the bytes halve, the peak stays and the limit doubles.",
    ),
    (
        "int8-alpha-wording",
        "Tensor parallelism",
        "in int8, α per byte moved is unchanged",
        "α is FLOP/s over byte/s, so it rises with the peak: in int8 on v5p it is twice that of "
        "bf16. It is the tensor limit that does not change.",
    ),
    (
        "larger-x-larger-tp",
        "FSDP and tensor parallelism",
        "a larger X makes the tensor-parallel collectives larger",
        "The direction is reversed: a larger X leaves fewer tokens to each tensor group.",
    ),
    (
        "x-opt-v5p",
        "Case study",
        "a best FSDP degree of about 1,618",
        "The printed value takes a batch rounded to three digits; the case study's own batch is "
        "exact.",
    ),
    (
        "mesh-leaves-chips-idle",
        "Case study",
        "2,048 × 4 fills a v5p pod",
        "The product of the two degrees is smaller than the pod; the rest of it stays idle.",
    ),
    (
        "ironwood-slice-after-rounding",
        "Ironwood",
        "a compute-bound slice of about 1,800 chips",
        "That slice needs a tensor degree that is not whole. At the largest whole degree that the "
        "large-n form allows, the weights set a lower limit; the exact form allows one way more.",
    ),
    (
        "ironwood-16m-after-rounding",
        "Ironwood",
        "about 7,200 chips at the later batch",
        "That slice needs the same tensor degree, which is not whole; the limit printed here is "
        "the one at the largest whole degree, large-n.",
    ),
    (
        "same-ici-per-link",
        "Ironwood",
        "v5p and Ironwood have the same ICI bandwidth per link",
        "That is right of the vendor's figures, but the printed intensities do not both rest on "
        "them: v5p's takes the lower bandwidth of the Scaling Book, Ironwood's the vendor's.",
    ),
    (
        "pp-moves-per-layer",
        "Pipelining",
        "[B, D] activations once per layer",
        "They move once per stage boundary; a layer inside a stage moves nothing.",
    ),
    (
        "dcn-after-rounding",
        "Across pods",
        "inside each of four pods the batch just clears the mixed condition",
        "Only the best split, which is not whole, clears it. No whole tensor degree between the "
        "two limits divides a pod.",
    ),
)
for figure, place, printed, reason in ERRATA:
    chapter.erratum(figure, printed, reason, place)
