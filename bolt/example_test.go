package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
)

// scratch returns the name of a file in a new directory, and a function that removes both.
func scratch() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "brim-example-")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "limits.db"), func() { os.RemoveAll(dir) }
}

// The second program finds the level that the first one left.
func ExampleOpen() {
	path, remove := scratch()
	defer remove()
	letters := brim.Over(3, 24*time.Hour)
	for program := range 2 {
		db, err := bolt.Open(path, nil)
		if err != nil {
			log.Fatal(err)
		}
		st, err := brim.New(db, nil).TryFillup(context.Background(), letters.For("user:42"), 2)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("program", program, st.Accepted)
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// program 0 true
	// program 1 false
}

// A store that syncs ten times a second. A kill of the program loses nothing, and a failure of the
// machine the last moments.
func ExampleOptions_syncEvery() {
	path, remove := scratch()
	defer remove()
	db, err := bolt.Open(path, &bolt.Options{SyncEvery: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close() // makes everything durable
	st, err := brim.New(db, nil).TryFillup(context.Background(), brim.Over(100, time.Second).For("page"), 1)
	fmt.Println(st.Accepted, err)
	// Output: true <nil>
}

// The rows of an application and the charge for them commit together, in its own bbolt file.
func ExampleNew() {
	path, remove := scratch()
	defer remove()
	file, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	buckets, err := bolt.New(file, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer buckets.Close() // the file stays open

	errOver := errors.New("over the limit")
	insert := func(key, row string) error {
		return file.Update(func(tx *bbolt.Tx) error {
			rows, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			if err := rows.Put([]byte(key), []byte(row)); err != nil {
				return err
			}
			st, err := brim.New(buckets.With(tx), nil).TryFillup(context.Background(), brim.Over(1, time.Hour).For("user:42"), 1)
			if err == nil && !st.Accepted {
				err = errOver // and the row is not there
			}
			return err
		})
	}
	fmt.Println(insert("1", "first"))
	fmt.Println(insert("2", "second"))
	// Output:
	// <nil>
	// over the limit
}

// A backup of an open store is one file that needs no journal.
func ExampleStore_Backup() {
	path, remove := scratch()
	defer remove()
	db, err := bolt.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := brim.New(db, nil).Fillup(context.Background(), brim.Over(3, time.Hour).For("user:42"), 2); err != nil {
		log.Fatal(err)
	}
	var copied bytes.Buffer
	n, err := db.Backup(context.Background(), &copied)
	fmt.Println(n == int64(copied.Len()), err)
	// Output: true <nil>
}

// Check names the settings and states that break or weaken the promises, and the way out.
func ExampleCheck() {
	findings, err := bolt.Check(context.Background(), "limits.db")
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings {
		fmt.Println(f.Severity, f.Subject, f.Problem, f.Remedy)
	}
}
