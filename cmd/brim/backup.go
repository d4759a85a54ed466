package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/sqlite"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := newCommand("backup")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := a.place()
		switch {
		case err != nil:
			return err
		case p.Kind() != place.File && p.Kind() != place.SQLite:
			return usagef("backup copies a bbolt file or a SQLite database; give its name with --store")
		}
		err = a.with(cmd.Context(), opening{}, func(s *opened, _ *brim.Limiter) error {
			if s.SQLite != nil {
				return a.backupSQLite(cmd.Context(), s.SQLite, args[0])
			}
			return a.backup(cmd.Context(), s.file, args[0])
		})
		if boltfile.Locked(err) {
			err = fmt.Errorf("%w; or have the program that uses the file make the backup, with Store.Backup", err)
		}
		return err
	}
	return cmd
}

// backup writes a copy of a store to a new file.
func (a *app) backup(ctx context.Context, s *bolt.Store, to string) error {
	var size int64
	values, err := boltfile.WriteNew(ctx, to, func(file vfs.File) (err error) {
		// An operator who works as root must not lock out the program that owns the file.
		if err := kv.Of(s).File().Resemble(file); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		size, err = s.Backup(ctx, file.Handle())
		return err
	})
	if errors.Is(err, boltfile.ErrExists) {
		return usagef("%s: %w", to, err)
	}
	if err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	buckets, ledger := values["brim"], uint64(0)
	for _, n := range values {
		ledger += n
	}
	ledger -= buckets
	ofLedger := ""
	if ledger > 0 {
		ofLedger = ", " + count(ledger, "value") + " of the ledger"
	}
	text := fmt.Sprintf("backed up to %s: %s%s, %s", to, count(buckets, "bucket"), ofLedger, count(size, "byte"))
	return a.print(struct {
		Backup  string `json:"backup"`
		Bytes   int64  `json:"bytes"`
		Buckets uint64 `json:"buckets"`
		Ledger  uint64 `json:"ledger_values"`
	}{to, size, buckets, ledger}, text)
}

// backupSQLite writes a copy of a database to a new file.
func (a *app) backupSQLite(ctx context.Context, s *sqlite.Store, to string) error {
	err := s.Backup(ctx, to)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s: %w", to, boltfile.ErrExists)
	}
	var is fs.FileInfo
	if err == nil {
		is, err = os.Stat(to)
	}
	if err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	return a.print(struct {
		Backup string `json:"backup"`
		Bytes  int64  `json:"bytes"`
	}{to, is.Size()}, fmt.Sprintf("backed up to %s: %d bytes", to, is.Size()))
}
