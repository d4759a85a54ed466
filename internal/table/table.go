// Package table prints rows of text in aligned columns, as plain text or as Markdown, and reads
// Markdown tables back.
package table

import (
	"errors"
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

// ErrNoTable reports that a text contains no Markdown table.
var ErrNoTable = errors.New("table: there is no Markdown table")

// ReadMarkdown reads the first table of a Markdown text, as [Table.Markdown] writes it.
func ReadMarkdown(text string) (*Table, error) {
	var t *Table
	rule := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if t != nil {
				break
			}
			continue
		}
		cells := splitRow(line)
		switch {
		case t == nil:
			t = New()
			for _, name := range cells {
				t.Columns = append(t.Columns, Left(name))
			}
		case !rule:
			rule = true
			for i := range min(len(cells), len(t.Columns)) {
				t.Columns[i].Right = strings.HasSuffix(cells[i], ":")
			}
		default:
			t.Add(cells...)
		}
	}
	if !rule {
		return nil, ErrNoTable
	}
	return t, nil
}

// splitRow returns the cells of a line of a Markdown table.
func splitRow(line string) []string {
	const escaped = "\x00" // stands for a bar within a cell
	cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, escaped), "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), escaped, "|")
	}
	return cells
}

// Cells returns the cells of the column with the given name, from top to bottom, or nil if there
// is no such column.
func (t *Table) Cells(name string) []string {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	all := make([]string, len(t.Rows))
	for k, row := range t.Rows {
		all[k] = row[i]
	}
	return all
}
