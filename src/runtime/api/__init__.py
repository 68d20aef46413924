"""HTTP in, HTTP out: read the request, call one service, answer."""
