"""Our side of the sandbox: decides what runs when, holds the clock, keeps interpreter states. Trusted."""
