package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
)

// file returns a ledger in a new file, which clock fills without syncs. Later commits are synced.
func (b *bench) file(ctx context.Context, name string, fill *clock, account string) (*boltledger.Ledger, func() error, error) {
	path := filepath.Join(b.dir, name)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return nil, nil, err
	}
	open := func(o *boltledger.Options) (*boltledger.Ledger, func() error, error) {
		s, err := bolt.New(db, nil)
		if err != nil {
			return nil, nil, err
		}
		l, err := boltledger.New(s, o)
		return l, func() error { return errors.Join(l.Close(), s.Close()) }, err
	}
	filling, closeFilling, err := open(&boltledger.Options{Clock: fill.time})
	if err == nil {
		err = errors.Join(fill.fill(ctx, filling, account), closeFilling(), db.Sync())
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	db.NoSync = false
	l, closeLedger, err := open(nil)
	return l, func() error { return errors.Join(closeLedger(), db.Close()) }, err
}

// bolt measures authorizations against one db.Batch per decision in a file of its own.
func (b *bench) bolt(ctx context.Context) (err error) {
	const callers = 256
	s, err := bolt.Open(filepath.Join(b.dir, "accounts.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := boltledger.New(s, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	authorize, err := spendload.Authorizer(l, window, b.id)
	if err != nil {
		return err
	}
	plain, err := bbolt.Open(filepath.Join(b.dir, "plain.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	batch := func(_ context.Context, account int) error {
		return plain.Batch(func(tx *bbolt.Tx) error {
			rows, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			key := binary.BigEndian.AppendUint64(nil, uint64(account))
			return rows.Put(key, binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
		})
	}
	t := table.Numeric("bbolt", "callers", "decisions/s", "db.Batch/s", "ratio")
	row, err := b.compare(ctx, fmt.Sprintf("%d accounts", b.accounts), callers, b.accounts, authorize, batch)
	if err != nil {
		return err
	}
	t.Add(row...)
	_, err = fmt.Fprintln(b.stdout, t.Markdown())
	return err
}
