// Package table prints rows of text in aligned columns, as plain text or as Markdown.
package table

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table contains rows of cells under a header. Make a Table with [New] or [Numeric].
type Table struct {
	Columns []Column
	Rows    [][]string // a row has as many cells as there are columns
}

// Column is the name and the alignment of a column.
type Column struct {
	Name  string
	Right bool // aligns the cells to the right, as numbers are
}

// Left returns a column of text. The name may be "".
func Left(name string) Column { return Column{Name: name} }

// Right returns a column of numbers. The name may be "".
func Right(name string) Column { return Column{Name: name, Right: true} }

// New returns a table without rows.
func New(columns ...Column) *Table { return &Table{Columns: columns} }

// Numeric returns a table without rows. Its first column is text, and its other columns are
// numbers.
func Numeric(first string, others ...string) *Table {
	t := New(Left(first))
	t.AddColumns(others...)
	return t
}

// AddColumns adds columns of numbers on the right. The table must not have rows yet.
func (t *Table) AddColumns(names ...string) {
	for _, name := range names {
		t.Columns = append(t.Columns, Right(name))
	}
}

// Add adds a row. It leaves out cells beyond the last column, and adds empty cells if there are
// too few. A line break within a cell becomes a space.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.Columns))
	for i := range min(len(row), len(cells)) {
		row[i] = strings.ReplaceAll(cells[i], "\n", " ")
	}
	t.Rows = append(t.Rows, row)
}

// Text returns the table as lines of plain text. Two spaces separate columns and stand in front
// of a first column that is aligned to the right. The header is left out if no column has a name.
func (t *Table) Text() string {
	const gap = "  "
	rows := t.Rows
	if header := t.header(); slices.ContainsFunc(header, func(name string) bool { return name != "" }) {
		rows = append([][]string{header}, rows...)
	}
	width := widths(rows, len(t.Columns), 0)
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 || t.Columns[i].Right {
				line.WriteString(gap)
			}
			line.WriteString(t.Columns[i].pad(cell, width[i]))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// Markdown returns the table in Markdown. The columns are aligned in the source, too.
func (t *Table) Markdown() string {
	rows := [][]string{t.header()}
	for _, row := range t.Rows {
		rows = append(rows, slices.Clone(row))
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
	}
	width := widths(rows, len(t.Columns), 3)
	rule := make([]string, len(t.Columns))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w)
		if t.Columns[i].Right {
			rule[i] = rule[i][1:] + ":"
		}
	}
	var b strings.Builder
	for _, row := range slices.Insert(rows, 1, rule) {
		for i, cell := range row {
			b.WriteString("| " + t.Columns[i].pad(cell, width[i]) + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func (t *Table) header() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// widths returns the width of each column in characters, at least the given one.
func widths(rows [][]string, columns, least int) []int {
	all := make([]int, columns)
	for i := range all {
		all[i] = least
		for _, row := range rows {
			all[i] = max(all[i], utf8.RuneCountInString(row[i]))
		}
	}
	return all
}

// pad fills a cell up to the width of its column.
func (c Column) pad(cell string, width int) string {
	spaces := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
	if c.Right {
		return spaces + cell
	}
	return cell + spaces
}
