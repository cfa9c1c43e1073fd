"""What is read: shards, their records, and the parts that are decided and resumed as one."""
