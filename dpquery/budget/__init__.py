"""Events to loss, and the durable list of charges."""
