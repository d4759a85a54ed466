package book

import "sync"

// End is an element of a list: something that ends at a time, with two numbers.
type End struct{ At, X, Y int64 }

// Ends are lists of ends, each in the order of its times. They are stored together behind all other
// fields, whichever their lists, the latest first. From one version of a value to the next, mostly
// a late end comes or goes, and the earlier ones stay as they are at the end of the value: so a
// write-ahead log that leaves out the bytes with which both versions end does not grow with the
// lists.
type Ends struct {
	ends  *written
	read  []reader // of each list
	left  int      // ends to be read
	lists int      // that were written
}

// written are the lists with ends that are to be written, one behind the other.
type written struct {
	ends  []End
	lists []list
}

// list is a list whose ends are those from first to after.
type list struct{ number, first, after int }

type reader struct {
	left int
	set  func(i int, x End)
}

// A decision writes hundreds of ends on an account with many holds.
var pool = sync.Pool{New: func() any { return new(written) }}

// Write writes the number of the ends of the next list, of which at returns each.
func (s *Ends) Write(e *Encoder, n int, at func(i int) End) {
	if e.Int(int64(n)); n > 0 {
		if s.ends == nil {
			s.ends = pool.Get().(*written)
		}
		w := s.ends
		w.lists = append(w.lists, list{s.lists, len(w.ends), len(w.ends) + n})
		for i := range n {
			w.ends = append(w.ends, at(i))
		}
	}
	s.lists++
}

// Encode writes the ends of all lists. Their times are differences to the one before. The lists
// must not be used any more.
func (s *Ends) Encode(e *Encoder, now int64) {
	if s.ends == nil {
		return
	}
	w := s.ends
	for range w.ends {
		latest := -1
		for i, l := range w.lists {
			if l.first < l.after && (latest < 0 || w.ends[l.after-1].At >= w.ends[w.lists[latest].after-1].At) {
				latest = i
			}
		}
		l := &w.lists[latest]
		l.after--
		x := w.ends[l.after]
		e.Int(now - x.At)
		e.Int(int64(l.number))
		e.Int(x.X)
		e.Int(x.Y)
		now = x.At
	}
	w.ends, w.lists = w.ends[:0], w.lists[:0]
	pool.Put(w)
	s.ends = nil
}

// Read tells that the next list has n ends. Decode sets each.
func (s *Ends) Read(n int, set func(i int, x End)) {
	s.read = append(s.read, reader{n, set})
	s.left += n
}

// Decode reads the ends of all lists.
func (s *Ends) Decode(d *Decoder, now int64) {
	for i := 0; i < s.left && d.Err == nil; i++ {
		earlier, number := d.Int(), d.Int()
		if number < 0 || number >= int64(len(s.read)) || s.read[number].left == 0 || i > 0 && earlier < 0 {
			d.Damaged("the ends of holds are out of order")
			return
		}
		now -= earlier
		r := &s.read[number]
		r.left--
		r.set(r.left, End{now, d.Int(), d.Int()})
	}
}
