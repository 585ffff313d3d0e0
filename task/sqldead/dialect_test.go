package sqldead

import "testing"

func TestDialects(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{SQLite.bind("a = ? AND b = ?"), "a = ? AND b = ?"},
		{Postgres.bind("a = ? AND b = ?"), "a = $1 AND b = $2"},
		{Postgres.bind("none"), "none"},
		{Postgres.insert("t"), "INSERT INTO t (" + columns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING"},
		{MySQL.insert("t"), "INSERT IGNORE INTO t (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
