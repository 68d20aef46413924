"""Token exchange: one function for each numbered step, put together in `pipeline`."""
