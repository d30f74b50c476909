"""What a Keras network is made of: its layers, its outputs, and copies of it."""
