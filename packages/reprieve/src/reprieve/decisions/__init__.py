"""The description of a decision: one set of types, built in one place, with plans, records and texts as views."""
