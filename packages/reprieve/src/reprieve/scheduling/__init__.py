"""The queue's entities go in, decisions come out: the cycles, and the engine that runs them."""
