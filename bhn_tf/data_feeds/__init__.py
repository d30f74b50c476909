"""What a batch is, whatever it comes from: its spec, its rows, its checks."""
