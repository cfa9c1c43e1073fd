"""What a run leaves behind: tables and records, how to resume from them and ask them."""
