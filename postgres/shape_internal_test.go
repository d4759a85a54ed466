package postgres

import "testing"

// A table that an extension distributes over servers is a plain table in pg_class.
func TestDistributedTable(t *testing.T) {
	for _, c := range []struct {
		shape shape
		want  string
	}{
		{shape{kind: "r"}, ""},
		{shape{kind: "r", elsewhere: true}, "has its rows on other servers"},
	} {
		if got := c.shape.unprunable(); got != c.want {
			t.Errorf("%+v: %q; want %q", c.shape, got, c.want)
		}
	}
}
