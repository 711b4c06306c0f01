"""What several calibrators share; methods import from here, never the other way round."""
