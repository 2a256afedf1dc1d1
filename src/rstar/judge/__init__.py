"""The sandbox as a network service: API, queue, workers, client."""
