"""Match streams of events batch by batch."""
