"""Keras networks: their layers, their outputs, and copies of them."""
