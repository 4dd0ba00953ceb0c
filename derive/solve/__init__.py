"""What follows from a strategy: thresholds, optima, feasible splits, derivations, evaluation."""
