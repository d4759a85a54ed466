package combine

// list is a queue. Removing a request from its middle takes the same time however many wait.
type list[Q, A any] struct {
	first, last *Request[Q, A]
	length      int
}

func (l *list[Q, A]) push(r *Request[Q, A]) {
	r.prev = l.last
	if l.last != nil {
		l.last.next = r
	} else {
		l.first = r
	}
	l.last = r
	l.length++
}

func (l *list[Q, A]) pushFront(r *Request[Q, A]) {
	r.next = l.first
	if l.first != nil {
		l.first.prev = r
	} else {
		l.last = r
	}
	l.first = r
	l.length++
}

func (l *list[Q, A]) remove(r *Request[Q, A]) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.next, r.prev = nil, nil
	l.length--
}
