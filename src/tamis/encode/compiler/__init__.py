"""How kernels get their machine code: from disk, from a process that compiles, or not yet."""
