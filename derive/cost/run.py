"""A whole training run: its FLOPs and its time, and the memory that it takes beside the weights.

The count of FLOPs is that of the matrices: a multiply-add for each parameter and token in the
forward pass and two in the backward pass, six FLOP in all [SB5]. Attention over the sequence and
recomputation are left out.
"""

from __future__ import annotations

from derive.cost.stage import flops_per_parameter
from derive.notation import units
from derive.notation.symbols import A, B, C, D, L, N, P, R, e, u, unit_of_symbol
from derive.notation.units import expect_unit

SECONDS_PER_DAY = 24 * 60 * 60

training_flops = flops_per_parameter() * P * R
"""FLOP of a run of R tokens with P parameters."""

run_seconds = training_flops / (N * C * u)
"""Seconds of that run on N chips at a utilisation (MFU) of u."""

saved_activations = A * e * B * D * L / N
"""Bytes per chip of A tensors [B, D] saved for the backward pass in each layer, spread over N."""

expect_unit(training_flops, units.flop, unit_of_symbol, "training_flops")
expect_unit(run_seconds, units.second, unit_of_symbol, "run_seconds")
expect_unit(saved_activations, units.byte, unit_of_symbol, "saved_activations")
