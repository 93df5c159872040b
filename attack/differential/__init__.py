"""Differential fuzzing: random rules and events through every public call, and several oracles."""
