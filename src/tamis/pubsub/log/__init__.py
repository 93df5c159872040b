"""The event log: what was published, in order, with the subscriptions that each event reached."""
