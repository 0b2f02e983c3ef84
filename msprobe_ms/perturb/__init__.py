"""The task `free_benchmark`: an API is run a second time with slightly changed inputs, and the outputs are compared."""
