"""Papers as printed, for replication alone: nothing in this room is certified, and no mechanism imports it."""
