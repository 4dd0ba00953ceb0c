"""What earlier printings of the chapter have wrong."""

from __future__ import annotations

from .common import chapter

ERRATA = (
    (
        "script-size",
        "Opening",
        "a search script of a few dozen lines",
        "That is the size of the pricing alone. The printing and the searches nearly double it.",
    ),
    (
        "first-last-compute-more",
        "Self-test",
        "the first and the last stage compute more than the middle ones",
        "The embedding is a look-up and costs the first stage no arithmetic to speak of.",
    ),
    (
        "first-last-more-memory",
        "Self-test",
        "the first and the last stage use more memory than the middle ones",
        "Under 1F1B the last stage holds the activations of one micro-batch only. Against most "
        "stages that saves more than its head adds.",
    ),
    (
        "micro-much-larger",
        "The steps for choosing",
        "the micro-batch count has to be far larger than the stage count",
        "That is right of a plain schedule. The published set-up of Llama 3 405B has sixteen "
        "sequences per replica for sixteen stages, at most one micro-batch per stage, and lives "
        "with it by interleaving.",
    ),
    (
        "min-cp-chunk-reason",
        "The search",
        "4,096 tokens, below which the ring's steps are too small",
        "The number follows from neither form of the ring. As the search counts the ring, TP8 CP2 "
        "of 70B over the network needs more; with keys and values split over the tensor group, "
        "less.",
    ),
    (
        "first-stage-tightest",
        "The search",
        "memory is counted on the tightest stage, which has the most parameters",
        "The tightest stage has them, but an even share is counted, and that is too little by "
        "this factor at the deepest pipeline of the grid.",
    ),
    (
        "volume-barely-falls",
        "How to read it",
        "the volume of tensor parallelism barely falls with t",
        "It rises. The conclusion, a ratio that grows with t - 1, is not affected.",
    ),
    (
        "no-cp-all-80",
        "How to read it",
        "without context parallelism all 80 layers have to be recomputed",
        "It is true with one stage or eight, and not with two or four.",
    ),
    (
        "more-cards-more-cp",
        "How to read it",
        "with more cards the context degree goes higher still",
        "The replicas that more cards bring share one batch. The bubble of a pipeline grows, and a "
        "plan without one takes over. The published run is another matter.",
    ),
    (
        "both-explained",
        "Two published configurations",
        "both can be explained with the chapter's framework",
        "The search wants whole layers per stage, and has neither experts nor interleaving.",
    ),
    (
        "pp-has-to-reach-16",
        "Two published configurations",
        "the batch no longer allows data parallelism to grow, so the pipeline has to reach 16",
        "The batch would still divide over two or four times as many replicas, so it does not "
        "force sixteen stages.",
    ),
    (
        "a2a-bytes",
        "Exercises",
        "each all-to-all moves about k s b h bytes",
        "That is the number of elements. It is the number of bytes where tokens travel in fp8.",
    ),
)
for figure, place, printed, reason in ERRATA:
    chapter.erratum(figure, printed, reason, place)
