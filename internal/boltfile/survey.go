package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// errPage is the reason why a page is not walked.
type errPage string

func (e errPage) Error() string { return string(e) }

// survey is one pass over the live pages.
type survey struct {
	*Remains
	ctx   context.Context
	seen  []uint64 // a bit for every page that was walked, or is free
	visit func(bucket, key, value []byte, suspect bool) error
	first bool              // the first pass, which reports damage
	lost  map[uint64][]byte // damaged pages that the tree of this bucket refers to
}

// walk visits the values in all live pages.
func (r *Remains) walk(ctx context.Context, visit func(bucket, key, value []byte, suspect bool) error) error {
	s := &survey{
		Remains: r, ctx: ctx, visit: visit, first: r.tables == nil,
		seen: make([]uint64, r.meta.high/64+1), lost: make(map[uint64][]byte),
	}
	s.seen[0] = 0b11
	if s.first {
		for _, name := range [...]string{"brim", "spend.accounts", "spend.requests"} {
			r.table([]byte(name)) // for values whose page has lost its table
		}
	}
	if err := s.root(); err != nil {
		return err
	}
	free := s.freePages()
	return s.orphans(free)
}

func (s *survey) has(id uint64) bool { return s.seen[id/64]&(1<<(id%64)) != 0 }
func (s *survey) add(id uint64)      { s.seen[id/64] |= 1 << (id % 64) }

// report notes damage in the first pass.
func (s *survey) report(f Finding) {
	s.sound = false
	if s.first {
		s.find(f)
	}
}

// load reads a page with its overflow pages. It does not judge its content.
func (s *survey) load(id uint64) ([]byte, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	if id < 2 || id >= s.meta.high {
		return nil, errPage(fmt.Sprintf("is page %d of %d", id, s.meta.high))
	}
	size := s.meta.pageSize
	p := make([]byte, size)
	if err := s.read(p, id); err != nil {
		return nil, err
	}
	if over := uint64(order.Uint32(p[12:])); over > 0 {
		if over >= s.meta.high-id {
			return nil, errPage("is longer than the file")
		}
		p = make([]byte, (1+int(over))*size)
		if err := s.read(p, id); err != nil {
			return nil, err
		}
	}
	if s.done++; s.tell != nil && s.done%1024 == 0 {
		s.tell(s.done, s.meta.high)
	}
	return p, nil
}

// read fills p from page id on. A sector that the disk cannot read is damage to the page.
func (s *survey) read(p []byte, id uint64) error {
	_, err := s.file.ReadAt(p, int64(id)*int64(s.meta.pageSize))
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return errPage(fmt.Sprintf("cannot be read: %v", err))
	}
	if err != nil {
		return errPage("is cut short")
	}
	return nil
}

// root walks the buckets that the root page lists, as far as it can be read.
func (s *survey) root() error {
	id := s.meta.root
	p, err := s.load(id)
	if err == nil {
		switch {
		case order.Uint64(p) != id:
			err = errPage(fmt.Sprintf("says that it is page %d", order.Uint64(p)))
		case order.Uint16(p[8:]) != leafPage:
			err = errPage("is of a kind that does not belong there")
		}
	}
	var page errPage
	if errors.As(err, &page) {
		s.rootDamage(string(page))
	} else if err != nil {
		return err
	}
	if p == nil {
		return nil
	}
	if err == nil {
		for i := range uint64(len(p) / s.meta.pageSize) {
			s.add(id + i)
		}
	}
	for i := range order.Uint16(p[10:]) {
		e, err := leafEntry(p, int(i))
		switch {
		case err != nil:
			s.rootDamage(err.Error())
		case e.flags == bucketElement:
			if err := s.bucket(e.key, e.value); err != nil {
				return err
			}
		default:
			s.rootDamage("lists something that is no bucket")
		}
	}
	return nil
}

// rootDamage reports damage to the page that lists all buckets.
func (s *survey) rootDamage(problem string) {
	s.Listed = false
	s.report(Finding{What: "page", Page: s.meta.root, Problem: problem + "; the page lists all buckets"})
}

// bucket walks a bucket of the root page.
func (s *survey) bucket(name, value []byte) error {
	name = bytes.Clone(name)
	if len(value) < inBucketSize {
		s.report(Finding{What: "page", Page: s.meta.root, Problem: "has no header of a bucket", Of: string(name)})
		return nil
	}
	root := order.Uint64(value)
	if root != 0 {
		return s.tree(root, name, nil, nil, 0)
	}
	p := value[inBucketSize:]
	if len(p) < pageHeader || order.Uint16(p[8:]) != leafPage {
		s.report(Finding{What: "page", Page: s.meta.root, Problem: "holds a small bucket without its page", Of: string(name)})
		return nil
	}
	for i := range order.Uint16(p[10:]) {
		e, err := leafEntry(p, int(i))
		if err != nil || e.flags != 0 {
			s.report(Finding{What: "page", Page: s.meta.root, Problem: "holds a damaged entry of a small bucket", Of: string(name)})
			continue
		}
		if err := s.visit(name, e.key, e.value, false); err != nil {
			return err
		}
	}
	return nil
}

// element is an entry of a leaf page.
type element struct {
	flags      uint32
	key, value []byte
}

func leafEntry(p []byte, i int) (e element, err error) {
	at := int64(pageHeader + i*elementSize)
	head, ok := part(p, at, elementSize)
	if !ok {
		return e, errPage("has an entry outside of it")
	}
	pos, keySize := at+int64(order.Uint32(head[4:])), int64(order.Uint32(head[8:]))
	key, ok := part(p, pos, keySize)
	value, ok2 := part(p, pos+keySize, int64(order.Uint32(head[12:])))
	if !ok || !ok2 || keySize == 0 {
		return e, errPage("has an entry outside of it")
	}
	return element{order.Uint32(head), key, value}, nil
}

// tree walks the pages below page id, whose keys lie from low up to, but not including, high. A
// page that is damaged is left to orphans, as are those that only it leads to.
func (s *survey) tree(id uint64, bucket, low, high []byte, depth int) error {
	p, err := s.load(id)
	var entries []element
	var children []uint64
	if err == nil {
		entries, children, err = s.check(p, id, low, high, depth)
	}
	var page errPage
	if errors.As(err, &page) {
		s.report(Finding{
			What: "page", Page: id, Of: string(bucket), From: string(low), To: string(high), Problem: string(page),
		})
		if id >= 2 && id < s.meta.high {
			s.lost[id] = bucket
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i := range uint64(len(p) / s.meta.pageSize) {
		s.add(id + i)
	}
	for i, e := range entries {
		if children == nil {
			err = s.visit(bucket, e.key, e.value, false)
		} else {
			end := high
			if i+1 < len(entries) {
				end = entries[i+1].key
			}
			err = s.tree(children[i], bucket, e.key, end, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check returns the entries of a page, if all of it is as it must be. children is nil for a leaf.
func (s *survey) check(p []byte, id uint64, low, high []byte, depth int) (entries []element, children []uint64, err error) {
	for i := range uint64(len(p) / s.meta.pageSize) {
		if s.has(id + i) {
			return nil, nil, errPage("is in two places")
		}
	}
	kind := order.Uint16(p[8:])
	switch {
	case depth > maxDepth:
		return nil, nil, errPage("is part of a chain without end")
	case order.Uint64(p) != id:
		return nil, nil, errPage(fmt.Sprintf("says that it is page %d", order.Uint64(p)))
	case kind != leafPage && kind != branchPage:
		return nil, nil, errPage(fmt.Sprintf("is of kind %#x, which does not belong there", kind))
	}
	var last []byte
	for i := range int(order.Uint16(p[10:])) {
		var e element
		if kind == leafPage {
			e, err = leafEntry(p, i)
		} else {
			e, children, err = branchEntry(p, i, children)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case e.flags != 0:
			return nil, nil, errPage(fmt.Sprintf("has an entry of kind %#x, which does not belong there", e.flags))
		case ordered(last, e.key, low, high) != nil:
			return nil, nil, errPage("has keys out of order")
		}
		last, entries = e.key, append(entries, e)
	}
	if kind == branchPage && len(entries) == 0 {
		return nil, nil, errPage("is an empty branch")
	}
	return entries, children, nil
}

func branchEntry(p []byte, i int, children []uint64) (e element, all []uint64, err error) {
	at := int64(pageHeader + i*elementSize)
	head, ok := part(p, at, elementSize)
	if ok {
		e.key, ok = part(p, at+int64(order.Uint32(head)), int64(order.Uint32(head[4:])))
	}
	if !ok {
		return e, nil, errPage("has an entry outside of it")
	}
	return e, append(children, order.Uint64(head[8:])), nil
}

// freePages adds the free pages to those that were seen. It returns false if the list is damaged.
func (s *survey) freePages() bool {
	if s.meta.freelist == noFreelist {
		return false
	}
	id := s.meta.freelist
	bad := func(problem string) bool {
		s.report(Finding{What: "free pages", Page: id, Problem: problem})
		return false
	}
	p, err := s.load(id)
	if err != nil {
		return bad(err.Error())
	}
	if order.Uint64(p) != id || order.Uint16(p[8:]) != freelistPage || s.has(id) {
		return bad("are not listed where they should be")
	}
	count, at := uint64(order.Uint16(p[10:])), pageHeader
	if count == 0xFFFF {
		count, at = order.Uint64(p[at:]), at+8
	}
	if count > uint64(len(p)-at)/8 {
		return bad("are more than their page has room for")
	}
	free := slices.Clone(s.seen)
	for i := range int(count) {
		n := order.Uint64(p[at+8*i:])
		if n < 2 || n >= s.meta.high || free[n/64]&(1<<(n%64)) != 0 {
			return bad(fmt.Sprintf("list page %d, which is in use, listed twice or no page", n))
		}
		free[n/64] |= 1 << (n % 64)
	}
	s.seen = free
	for i := range uint64(len(p) / s.meta.pageSize) {
		s.add(id + i)
	}
	return true
}

// orphans visits the values in pages that are neither in use nor free, because a page that leads to
// them, or a part of them, is damaged. Without the list of free pages nothing tells pages that have
// lost the way to them from free ones, whose content is old.
func (s *survey) orphans(listed bool) error {
	for id := uint64(2); id < s.meta.high; id++ {
		if _, lost := s.lost[id]; s.has(id) || !listed && !lost {
			continue
		}
		if s.first && s.sound {
			s.report(Finding{What: "free pages", Page: id, Problem: "lack a page that is not in use"})
		}
		p, err := s.load(id)
		var page errPage
		if errors.As(err, &page) {
			p = make([]byte, s.meta.pageSize) // the size of its overflow is damaged: look at the page alone
			if s.read(p, id) != nil {
				continue
			}
		} else if err != nil {
			return err
		}
		suspect := order.Uint64(p) != id
		var bucket []byte
		if !suspect && order.Uint16(p[8:]) == leafPage {
			bucket = s.lost[id] // its damaged values can be named
		}
		for i := range order.Uint16(p[10:]) {
			e, err := leafEntry(p, int(i))
			if err != nil || e.flags != 0 || bucket == nil && s.owner(nil, e.key, e.value) == nil {
				continue
			}
			if err := s.visit(bucket, e.key, e.value, suspect); err != nil {
				return err
			}
		}
	}
	return nil
}
