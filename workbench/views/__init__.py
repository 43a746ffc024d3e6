"""What people look at: views over plain data. No SQL, no engine."""
