"""What to run: device meshes, the space of plans, their search, and how a plan explains itself."""
