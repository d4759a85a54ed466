// Package invariant checks assumptions of this module's own code while its tests run. With the race
// detector, or with the build tag invariant, a broken assumption is a panic. In all other builds
// the functions do nothing.
package invariant

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// Assert panics with the message if ok is false. Guard arguments that cost time with [On].
func Assert(ok bool, message string) {
	if On && !ok {
		panic("invariant: " + message)
	}
}

// Rank is the place of a lock in the order of all locks of one owner.
type Rank uint8

// held lists the locks of each goroutine by its number, in the order in which it took them.
var (
	mu   sync.Mutex
	held = make(map[uint64][]lock)
)

type lock struct {
	owner any
	rank  Rank
}

// Lock notes that this goroutine is about to wait for a lock. It panics if the goroutine holds a
// lock of the same owner with the same rank or a higher one: two goroutines that take locks in
// different orders can wait for each other for ever.
func Lock(owner any, rank Rank) {
	if !On {
		return
	}
	id := goroutine() // takes a hundred times longer than all else here
	mu.Lock()
	defer mu.Unlock()
	for _, l := range held[id] {
		if l.owner == owner && l.rank >= rank {
			panic(fmt.Sprintf("invariant: lock %d is taken after lock %d", rank, l.rank))
		}
	}
	held[id] = append(held[id], lock{owner, rank})
}

// Unlock notes that a lock is released, by the goroutine that has taken it or by another.
func Unlock(owner any, rank Rank) {
	if !On {
		return
	}
	id := goroutine()
	mu.Lock()
	defer mu.Unlock()
	if release(id, lock{owner, rank}) {
		return
	}
	for id := range held {
		if release(id, lock{owner, rank}) {
			return
		}
	}
	panic(fmt.Sprintf("invariant: lock %d is released, and nobody holds it", rank))
}

func release(id uint64, l lock) bool {
	i := slices.Index(held[id], l)
	if i < 0 {
		return false
	}
	if held[id] = slices.Delete(held[id], i, i+1); len(held[id]) == 0 {
		delete(held, id)
	}
	return true
}

// goroutine returns the number of this goroutine, which the runtime tells in stack traces alone.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
