// Package budgetfile reads spend budgets from YAML. It is strict, as [spend.Budget.UnmarshalJSON]
// is. An error names the line.
package budgetfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/spend"
)

// ErrFormat reports a file that is not a budget. The message of an error contains the line.
var ErrFormat = errors.New("not a budget file")

// maxSize is the largest accepted file in bytes, far above the size of any real budget.
const maxSize = 1 << 20

// Read reads the budget of a file, and then the further ones under "also".
func Read(r io.Reader) ([]spend.Budget, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("%w: it is larger than a megabyte", ErrFormat)
	}
	var doc yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&doc); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%w: %s", ErrFormat, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if err := documents.Decode(new(yaml.Node)); err != io.EOF {
		return nil, fmt.Errorf("%w: a second document follows the first; a file has one budget", ErrFormat)
	}
	p := &parser{}
	main := *doc.Content[0]
	main.Content = nil
	var also []spend.Budget
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		key, n := doc.Content[0].Content[i], doc.Content[0].Content[i+1]
		if key.Value != "also" {
			main.Content = append(main.Content, key, n)
			continue
		}
		if n.Kind != yaml.SequenceNode {
			p.fail(n, "write a list with a dash in front of each element")
		}
		for _, b := range n.Content {
			also = append(also, p.budget(b))
		}
	}
	all := append([]spend.Budget{p.budget(&main)}, also...)
	if p.err != nil {
		return nil, p.err
	}
	return all, nil
}

// parser reads parts of the document, and keeps the first error.
type parser struct{ err error }

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: line %d: "+format, append([]any{ErrFormat, n.Line}, args...)...)
	}
}

// budget reads a budget.
func (p *parser) budget(n *yaml.Node) (b spend.Budget) {
	text := p.json(n)
	if p.err != nil {
		return b
	}
	err := b.UnmarshalJSON(text)
	if mistake := new(spend.BudgetError); errors.As(err, &mistake) {
		p.fail(find(n, mistake.Path), "%s%w", strictjson.Place(mistake.Path), mistake.Err)
	} else if err != nil {
		p.fail(n, "%w", err)
	}
	return b
}

// find returns the node to which a path leads, or the last on the way that the document has: of a
// list the element, and of a mapping the name of the member.
func find(n *yaml.Node, path []any) *yaml.Node {
	at := n
	for _, step := range path {
		i, isIndex := step.(int)
		if !isIndex { // names and values alternate, and the last member of a name counts
			i = len(n.Content)
			for k := 0; k+1 < len(n.Content) && n.Kind == yaml.MappingNode; k += 2 {
				if n.Content[k].Value == step {
					at, i = n.Content[k], k+1
				}
			}
		}
		if i >= len(n.Content) {
			return at
		}
		if n = n.Content[i]; isIndex {
			at = n
		}
	}
	return at
}

// json writes a part of the document as JSON. Scalars become strings, as they are written.
func (p *parser) json(n *yaml.Node) []byte {
	var b []byte
	text := func(s string) []byte { t, _ := json.Marshal(s); return t } // a string has a form
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, p.json(n.Content[i+1])
			if v := n.Content[i+1].Value; (strings.HasPrefix(key, "counts_") || key == "shadow") && (v == "true" || v == "false") {
				value = []byte(v)
			}
			b = append(append(append(append(b, ','), text(key)...), ':'), value...)
		}
		return append(append([]byte("{"), b[min(1, len(b)):]...), '}')
	case yaml.SequenceNode:
		for _, one := range n.Content {
			b = append(append(b, ','), p.json(one)...)
		}
		return append(append([]byte("["), b[min(1, len(b)):]...), ']')
	case yaml.ScalarNode:
		return text(n.Value)
	}
	p.fail(n, "an alias has no place here")
	return nil
}
