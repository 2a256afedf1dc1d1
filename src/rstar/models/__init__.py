"""Model inference: one `Engine` protocol with a local torch engine, a server client and a fake."""
