"""The conversation layer: messages, strategies at work, and what goes into a model's context window."""
