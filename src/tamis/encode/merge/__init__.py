"""Several encoded rule sets merged into one, without their texts."""
