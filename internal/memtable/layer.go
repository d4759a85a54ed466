package memtable

import (
	"slices"
	"sort"
	"strings"
)

// item is a change of one key. A nil value removes the key.
type item struct {
	key   string
	value []byte
}

// group holds the changes of a group in order of key. Nobody changes a version of a group that
// others can see; a later version refers to it as long as views of that time need it.
type group struct {
	name    string
	version uint64
	items   []item
	before  *group
}

// groups holds the groups of a table by the bytes with which their keys begin.
type groups map[string]*group

// layer holds changes by the name of their table.
type layer map[string]groups

// find returns the place of key in items, and whether it is there.
func find(items []item, key []byte) (at int, ok bool) {
	at = sort.Search(len(items), func(i int) bool { return items[i].key >= string(key) })
	return at, at < len(items) && items[at].key == string(key)
}

// at returns the items of a group as of a version.
func (g groups) at(name []byte, version uint64) []item {
	for v := g[string(name)]; v != nil; v = v.before {
		if v.version <= version {
			return v.items
		}
	}
	return nil
}

// of returns the groups of a table, which it makes if there are none.
func (l layer) of(table string) groups {
	g := l[table]
	if g == nil {
		g = make(groups)
		l[table] = g
	}
	return g
}

// merge returns the items of base and those of later, which replace those of the same keys. It may
// use the room behind base, but never changes its items.
func merge(base, later []item) []item {
	switch {
	case len(base) == 0 || len(base) == 1 && base[0].key == later[0].key:
		if len(later) == 1 || len(base) == 0 {
			return later
		}
	case base[len(base)-1].key < later[0].key:
		return append(base, later...)
	}
	all := make([]item, 0, len(base)+len(later)+len(base)/4)
	for len(base) > 0 && len(later) > 0 {
		switch b, l := &base[0], &later[0]; {
		case b.key < l.key:
			all, base = append(all, *b), base[1:]
		case b.key == l.key:
			base = base[1:]
		default:
			all, later = append(all, *l), later[1:]
		}
	}
	return append(append(all, base...), later...)
}

// sorted returns the items of groups of a table in order of key.
func sorted(list []*group) []item {
	n := 0
	for _, g := range list {
		n += len(g.items)
	}
	slices.SortFunc(list, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	all := make([]item, 0, n)
	for _, g := range list {
		all = append(all, g.items...)
	}
	return all
}
