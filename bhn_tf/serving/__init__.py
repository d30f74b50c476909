"""SavedModels that answer with their uncertainty: what `export` is made of."""
