"""What a person sees while a run goes on: its progress, and no logs of others."""
