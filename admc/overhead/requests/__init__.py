"""What ADMs add to each request of a program: mean and worst latency, and CPU."""
