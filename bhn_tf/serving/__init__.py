"""SavedModels that answer with their uncertainty: the parts of `export`."""
