"""What the service does by itself: `schedule` lists the jobs, `runner` lets one process at a time do each."""
