"""The document of a decision: one set of types, built in one place, of which plans, records and texts are views."""
