"""The trusted parent side of the sandbox: schedules runs, holds the clock, keeps interpreter states."""
