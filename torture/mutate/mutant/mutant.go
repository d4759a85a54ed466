//go:build linux

package mutant

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// Limits of a process with a mutant, which may do anything for ever.
const (
	maxMemory = 4 << 30
	maxFile   = 1 << 30
)

var (
	active = number()
	seen   = record()
)

func number() int {
	text := os.Getenv("BRIM_MUTANT")
	if text == "" {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("mutant: BRIM_MUTANT is no number")
	}
	for resource, limit := range map[int]uint64{syscall.RLIMIT_DATA: maxMemory, syscall.RLIMIT_FSIZE: maxFile} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic("mutant: a limit: " + err.Error())
		}
	}
	return n
}

// record maps the file into memory, so that the bytes stay when the process is killed and when a
// test runs itself as a child.
func record() []byte {
	name := os.Getenv("BRIM_MUTANT_SEEN")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		panic("mutant: " + err.Error())
	}
	info, err := f.Stat()
	if err != nil {
		panic("mutant: " + err.Error())
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		panic("mutant: " + err.Error())
	}
	return b
}

// note records that mutant id makes a difference.
func note(id int, differs bool) {
	if differs && seen != nil {
		seen[id] = 1
	}
}

// Integer is a type with the operators of integers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Number is a type with the operators of arithmetic.
type Number interface{ Integer | ~float32 | ~float64 }

// On reports whether mutant id is on.
func On(id int) bool {
	note(id, true)
	return active == id
}

// Not returns b, and its negation if id is on.
func Not[B ~bool](id int, b B) B {
	note(id, true)
	return b != (active == id)
}

// Flip is a [Not] that note has seen already. Three of them around an || make it an &&.
func Flip[B ~bool](id int, b B) B { return b != (active == id) }

// Off returns v, or one more.
func Off[T Number](id int, v T) T {
	note(id, true)
	if active == id {
		return v + 1
	}
	return v
}

// Less returns x < y. Its mutants are x <= y and x >= y.
func Less[T cmp.Ordered](id int, x, y T) bool { return pick(id, x < y, x <= y) }

// LessEqual returns x <= y. Its mutants are x < y and x > y.
func LessEqual[T cmp.Ordered](id int, x, y T) bool { return pick(id, x <= y, x < y) }

// Greater returns x > y. Its mutants are x >= y and x <= y.
func Greater[T cmp.Ordered](id int, x, y T) bool { return pick(id, x > y, x >= y) }

// GreaterEqual returns x >= y. Its mutants are x > y and x < y.
func GreaterEqual[T cmp.Ordered](id int, x, y T) bool { return pick(id, x >= y, x > y) }

func pick(id int, original, mutated bool) bool {
	note(id, original != mutated)
	note(id+1, true)
	switch active {
	case id:
		return mutated
	case id + 1:
		return !original
	}
	return original
}

func choose[T Number](id int, original, mutated T) T {
	note(id, original != mutated)
	if active == id {
		return mutated
	}
	return original
}

// Add returns x + y, or x - y.
func Add[T Number](id int, x, y T) T { return choose(id, x+y, x-y) }

// Sub returns x - y, or x + y.
func Sub[T Number](id int, x, y T) T { return choose(id, x-y, x+y) }

// Mul returns x * y, or x / y.
func Mul[T Number](id int, x, y T) T {
	if y == 0 { // a division of integers would panic, which is a difference
		note(id, true)
		if active != id {
			return x * y
		}
	}
	return choose(id, x*y, x/y)
}

// Quo returns x / y, or x * y.
func Quo[T Number](id int, x, y T) T { return choose(id, x/y, x*y) }

// Rem returns x % y, or x * y.
func Rem[T Integer](id int, x, y T) T { return choose(id, x%y, x*y) }

// And returns x & y, or x | y.
func And[T Integer](id int, x, y T) T { return choose(id, x&y, x|y) }

// Or returns x | y, or x & y.
func Or[T Integer](id int, x, y T) T { return choose(id, x|y, x&y) }

// Xor returns x ^ y, or x & y.
func Xor[T Integer](id int, x, y T) T { return choose(id, x^y, x&y) }

// AndNot returns x &^ y, or x & y.
func AndNot[T Integer](id int, x, y T) T { return choose(id, x&^y, x&y) }

// Shl returns x << n, or x >> n.
func Shl[T, N Integer](id int, x T, n N) T { return choose(id, x<<n, x>>n) }

// Shr returns x >> n, or x << n.
func Shr[T, N Integer](id int, x T, n N) T { return choose(id, x>>n, x<<n) }

// Neg returns -x, or x.
func Neg[T Number](id int, x T) T { return choose(id, -x, x) }

// Min returns the least of its arguments, or the greatest.
func Min[T cmp.Ordered](id int, x T, more ...T) T {
	least, greatest := ends(x, more)
	note(id, least != greatest)
	if active == id {
		return greatest
	}
	return least
}

// Max returns the greatest of its arguments, or the least.
func Max[T cmp.Ordered](id int, x T, more ...T) T {
	least, greatest := ends(x, more)
	note(id, least != greatest)
	if active == id {
		return least
	}
	return greatest
}

func ends[T cmp.Ordered](x T, more []T) (least, greatest T) {
	least, greatest = x, x
	for _, y := range more {
		least, greatest = min(least, y), max(greatest, y)
	}
	return least, greatest
}
