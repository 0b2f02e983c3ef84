"""A recorded call executed by its own framework on the current device."""
