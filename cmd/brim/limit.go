package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/store"
)

// limitFlags are the flags that set a limit.
type limitFlags struct {
	text               string
	capacity, leakRate number
	over               duration.Value
	cmd                *cobra.Command
}

func addLimit(cmd *cobra.Command) *limitFlags {
	l := &limitFlags{cmd: cmd}
	cmd.Flags().Var(&l.capacity, "capacity", "capacity of the bucket, in units")
	cmd.Flags().Var(&l.leakRate, "leak-rate", "units that leak per second; a bucket with 0 never leaks")
	cmd.Flags().Var(&l.over, "over",
		"instead of --leak-rate: time in which a full bucket drains, like 90s, 15m, 24h or 30d")
	cmd.Flags().Lookup("over").DefValue = "" // help must not show a default of 0s
	cmd.Flags().StringVar(&l.text, "limit", "",
		"instead of all of these: 100/1h, 100@0.5 (leaks 0.5 per second), 100/month@UTC, nobody or unlimited")
	return l
}

// given reports whether any of the flags is set.
func (l *limitFlags) given() bool {
	f := l.cmd.Flags()
	return f.Changed("limit") || f.Changed("capacity") || f.Changed("leak-rate") || f.Changed("over")
}

// limit returns the limit that the flags set.
func (l *limitFlags) limit() (brim.Limit, error) {
	f := l.cmd.Flags()
	apart := f.Changed("capacity") || f.Changed("leak-rate") || f.Changed("over")
	switch {
	case f.Changed("limit") && apart:
		return brim.Limit{}, usagef("--limit is a whole limit; it stands without --capacity, --leak-rate and --over")
	case f.Changed("limit"):
		limit, err := brim.ParseLimit(l.text)
		if err != nil {
			err = usagef("--limit: %w", err)
		}
		return limit, err
	case !f.Changed("capacity"):
		return brim.Limit{}, usagef("a limit needs --capacity, and one of --leak-rate and --over; or --limit")
	case f.Changed("leak-rate") && f.Changed("over"):
		return brim.Limit{}, usagef("give one of --leak-rate and --over, not both")
	case !f.Changed("leak-rate") && !f.Changed("over"):
		return brim.Limit{}, usagef("a limit needs one of --leak-rate and --over beside --capacity")
	}
	limit := brim.Limit{Capacity: float64(l.capacity), LeakRate: 1}
	if err := limit.Validate(); err != nil {
		return brim.Limit{}, usagef("--capacity: %w", err)
	}
	limit.LeakRate = float64(l.leakRate)
	rate := "--leak-rate"
	if f.Changed("over") {
		rate = "--over"
		if l.over <= 0 {
			return brim.Limit{}, usagef("--over is the time in which a full bucket drains; it must be positive")
		}
		limit = brim.Over(float64(l.capacity), l.over.Std())
	}
	if err := limit.Validate(); err != nil {
		return brim.Limit{}, usagef("%s: %w", rate, err)
	}
	return limit, nil
}

// exact returns the limit that the flags set, with its exact leak rate.
func (l *limitFlags) exact() (simulate.Limit, error) {
	limit, err := l.limit()
	if err == nil && (limit == brim.Nobody || limit == brim.Unlimited || limit.Calendar()) {
		err = usagef("%s runs calls through a bucket, so it needs a capacity and a leak rate", l.cmd.Name())
	}
	over := l.over.Std()
	if strings.Contains(l.text, "/") && limit.LeakRate > 0 { // the rate is rounded; the time is not
		over = time.Duration(math.Round(limit.Capacity/limit.LeakRate*1e6)) * time.Microsecond
	}
	return simulate.Limit{Limit: limit, Over: over}, err
}

// bucketArgs reads KEY and AMOUNT.
func (l *limitFlags) bucketArgs(args []string) (brim.Bucket, float64, error) {
	limit, err := l.limit()
	if err != nil {
		return brim.Bucket{}, 0, err
	}
	n, err := parseNumber(args[1])
	if err != nil { // the text may be a key, if the caller has swapped the two
		err = fmt.Errorf("AMOUNT, which comes after KEY, %w", err)
	}
	if err == nil && n <= 0 {
		err = fmt.Errorf("AMOUNT is %v; it must be positive", n)
	}
	if err == nil {
		err = limit.ValidateAmount(n)
	}
	if err == nil {
		err = store.ValidateKey(args[0])
	}
	if err != nil {
		return brim.Bucket{}, 0, usageError{err}
	}
	return limit.For(args[0]), n, nil
}

// number is the value of a flag in units, or in units per second.
type number float64

func (n *number) String() string { return strconv.FormatFloat(float64(*n), 'g', -1, 64) }
func (n *number) Type() string   { return "number" }

func (n *number) Set(s string) (err error) {
	f, err := parseNumber(s)
	*n = number(f)
	return err
}

// parseNumber reads a decimal number. It looks at the text of numbers near 2^53, because a double
// rounds 2^53 + 1 to the allowed 2^53.
func parseNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errors.New("is not a number")
	}
	if digits, _, _ := strings.Cut(strings.ToLower(s), "e"); f == 0 && strings.ContainsAny(digits, "123456789") {
		return 0, errors.New("is too small: it would count as 0")
	}
	if f == store.MaxAmount {
		exact, _, err := big.ParseFloat(s, 0, 256, big.AwayFromZero)
		if err != nil || exact.Cmp(big.NewFloat(store.MaxAmount)) > 0 {
			return 0, errors.New("is more than 2^53, beyond which brim cannot count units exactly")
		}
	}
	return f, nil
}

// flagError names the flag first in an error about its value, as all other errors do.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if _, e := strconv.ParseFloat(unknown.GetSpecifiedShortnames(), 64); e == nil {
			return usagef("AMOUNT is -%s; it must be positive", unknown.GetSpecifiedShortnames())
		}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usageError{err}
	}
	cause := errors.Unwrap(invalid)
	var number *strconv.NumError
	text := strconv.Quote(invalid.GetValue())
	switch {
	case errors.As(cause, &number) && errors.Is(cause, strconv.ErrRange):
		return usagef("--%s: %s is out of range", invalid.GetFlag().Name, text)
	case errors.As(cause, &number):
		return usagef("--%s: %s is not a %s", invalid.GetFlag().Name, text, kindOf(invalid.GetFlag()))
	case strings.HasPrefix(cause.Error(), text): // a duration names its text
		return usagef("--%s: %w", invalid.GetFlag().Name, cause)
	}
	return usagef("--%s: %s %w", invalid.GetFlag().Name, text, cause)
}

// kindOf names the values that a flag takes.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "choice: write true or false, or nothing"
	case "int", "uint64":
		return "whole number"
	}
	return f.Value.Type()
}
