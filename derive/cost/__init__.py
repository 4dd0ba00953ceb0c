"""What a strategy costs: a sharding gives its moves and FLOPs, a network gives their time."""
