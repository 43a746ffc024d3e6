"""Everything that talks SQL: the embedded server, migrations, sessions, and one function for each named query."""
